"""@fashion_mnist//:data: the four files of Fashion-MNIST (Zalando Research, MIT licence), gzipped."""

# sha256 of upstream's files. They belong to the MD5 sums in upstream's README; several public
# projects pin the same.
_FILES = {
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
}

_BASES = [
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
]

def _impl(ctx):
    for name, sha256 in _FILES.items():
        ctx.download([base + name for base in _BASES], name, sha256)
    ctx.file("WORKSPACE", "workspace(name = \"fashion_mnist\")\n", executable = False)
    ctx.symlink(ctx.attr._build_file, "BUILD.bazel")

fashion_mnist_repository = repository_rule(
    implementation = _impl,
    attrs = {
        "_build_file": attr.label(default = Label("//third_party/fashion_mnist:fashion_mnist.BUILD")),
    },
    doc = "Downloads Fashion-MNIST.",
)
