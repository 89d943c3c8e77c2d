#!/usr/bin/env python3
"""A Linux kernel with soft-RoCE for the guest: finding one, or `kernel.py fetch DIR`: taking it out of Debian's package (no root needed).

What is looked at, in this order: the directory MARROW_TEST_KERNEL, build/rxe-kernel of the source tree, the root directory (an installed
kernel). Each holds boot/vmlinuz-VERSION and lib/modules/VERSION/kernel/."""
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FETCHED = SOURCE / "build" / "rxe-kernel"
# What the guest loads; what those need is found in the modules themselves. rdma_rxe asks the crypto layer for crc32.
WANTED = ["crc32_generic", "veth", "sch_netem", "rdma_rxe"]
KEPT = re.compile(r"\./(boot/vmlinuz-|lib/modules/[^/]+/kernel/(crypto|lib|net/(core|ipv4|ipv6|sched)|drivers/infiniband/(core|sw)|drivers/net/veth))")


class Missing(Exception):
    """There is no kernel; the text says what to do."""


def plain(path):
    """The module in that file, unpacked."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def modules_of(directory):
    """[(name, bytes)] of WANTED and all they need, in an order to load them in; None: one is not there (it may be built in)."""
    files = {re.sub(r"\.ko(\.xz|\.zst)?$", "", p.name).replace("-", "_"): p for p in directory.rglob("*.ko*")}
    order = {}

    def add(name):
        if name in order:
            return
        data = plain(files[name])
        for needed in re.search(rb"\0depends=([^\0]*)\0", data).group(1).decode().split(","):
            if needed:
                add(needed.replace("-", "_"))
        order[name] = data

    if "rdma_rxe" not in files or "veth" not in files:
        return None
    for name in WANTED:
        if name in files:
            add(name)
    return list(order.items())


def find():
    """(path of the kernel, modules)."""
    asked = os.environ.get("MARROW_TEST_KERNEL")
    for root in [pathlib.Path(asked)] if asked else [FETCHED, pathlib.Path("/")]:
        for image in sorted(root.glob("boot/vmlinuz-*"), reverse=True):
            modules = modules_of(root / "lib" / "modules" / image.name.removeprefix("vmlinuz-"))
            if modules and os.access(image, os.R_OK):
                return image, modules
    raise Missing(f"no kernel with rdma_rxe in {asked or f'{FETCHED} or /boot'}: tests/rxe/kernel.py fetch gets Debian's")


def fetch(directory):
    """Debian's newest kernel into directory, by apt."""
    words = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], stdout=subprocess.PIPE, text=True, check=True).stdout
    package = re.search(r"Depends: (linux-image-[0-9]\S*)", words).group(1)
    if directory.exists() and any(directory.iterdir()) and not list(directory.glob("boot/vmlinuz-*")):
        sys.exit(f"{directory} holds something else than a kernel: name a new directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as work:
        subprocess.run(["apt-get", "-qq", "download", package], cwd=work, check=True, stderr=subprocess.DEVNULL)
        archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", *pathlib.Path(work).glob("*.deb")], stdout=subprocess.PIPE)
        with tarfile.open(fileobj=archive.stdout, mode="r|") as tar:
            for member in tar:
                if member.isfile() and KEPT.match(member.name):
                    tar.extract(member, pathlib.Path(work) / "root")
        if archive.wait():
            raise OSError("dpkg-deb failed")
        shutil.rmtree(directory, ignore_errors=True)
        (pathlib.Path(work) / "root").rename(directory)
    print(f"{package} is in {directory}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] != "fetch":
        sys.exit(__doc__)
    fetch(pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else FETCHED)
