"""The patches on gloo, in the order in which they are applied (patch -p1)."""

GLOO_PATCHES = [
    "close_on_exec.patch",
    "no_sigpipe.patch",
    "loop_survives.patch",
    "abort_wakes.patch",
    "descriptor_stays.patch",
    "deadline.patch",
    "quiet.patch",
    "release_order.patch",
    "address_freed.patch",
    "long_wait.patch",
    "prompt.patch",
]
