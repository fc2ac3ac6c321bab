"""The patches on gloo, in the order in which they are applied (patch -p1)."""

GLOO_PATCHES = [
]
