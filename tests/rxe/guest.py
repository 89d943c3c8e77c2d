#!/usr/bin/env python3
"""Runs a program in a virtual machine that has two soft-RoCE ports: the kernel's own verbs, and packets on a wire.

  guest.py --program FILE [--mlx5 FILE] [--loss PERCENT]... [--seconds N] [-- ARGUMENT...]

The program runs once for each --loss, on packets lost at random both ways, with MARROW_* of this environment. --mlx5 is what the library
loads as libmlx5.so.1 in the place of this machine's. Exits with the program's status; 77 with the reason where QEMU, a kernel or a tool is missing."""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import kernel

HERE = pathlib.Path(__file__).resolve().parent


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def tool(name, package):
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not path:
        skip(f"no {name} here ({package})")
    return path


class Archive:
    """An initial file system in the kernel's format, cpio's "newc"."""

    def __init__(self):
        self.data = bytearray()
        self.made = set()

    def _entry(self, name, mode, content):
        name = name.encode() + b"\0"
        fields = [len(self.made), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        for part in (b"070701" + b"".join(b"%08x" % f for f in fields) + name, content):
            self.data += part + bytes(-len(part) % 4)

    def directory(self, name):
        if name and name not in self.made:
            self.directory(os.path.dirname(name))
            self.made.add(name)
            self._entry(name, 0o040755, b"")

    def file(self, name, content, mode=0o755):
        name = name.lstrip("/")
        if name not in self.made:
            self.directory(os.path.dirname(name))
            self.made.add(name)
            self._entry(name, 0o100000 | mode, content)

    def program(self, path, name=None):
        """With the libraries it needs, at their places."""
        self.file(name or path, pathlib.Path(path).read_bytes())
        needed = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for library in re.findall(r"(/\S+) \(0x", needed):
            self.file(library, pathlib.Path(library).read_bytes())

    def bytes(self):
        self._entry("TRAILER!!!", 0, b"")
        return bytes(self.data)


def library(pattern):
    """A library of this machine."""
    for directory in sorted(pathlib.Path("/usr/lib").glob("*-linux-gnu")) + [pathlib.Path("/usr/lib64")]:
        for found in sorted(directory.glob(pattern)):
            return str(found)
    return skip(f"no {pattern} here (libibverbs1, ibverbs-providers)")


def commands(losses, arguments):
    """The guest's script: the program at each loss. Its status is the first that is not 0."""
    lines = ["export LD_LIBRARY_PATH=/test", "status=0"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in os.environ.items() if name.startswith("MARROW_")]
    for loss in losses:
        lines.append("for d in va vb; do /tools/tc qdisc replace dev $d root netem limit 100000 " + (f"loss random {loss}%" if loss else "") + "; done")
        lines += [f"echo 'loss {loss} %'", f"./program {shlex.join(arguments)}", "s=$?; [ $status != 0 ] || status=$s"]
        # va drops what it is told to.
        lines += ["dropped=$(/tools/tc -s qdisc show dev va | sed -n 's/.*dropped \\([0-9]*\\).*/\\1/p')", "echo \"  $dropped packets were dropped on va\""]
        lines += ["[ $dropped -gt 0 ] || status=1"] if float(loss) else []
    return "\n".join(lines + ["exit $status", ""])


def file_system(args, modules):
    a = Archive()
    for directory in ("proc", "sys", "dev", "tmp"):
        a.directory(directory)
    a.file("init", (HERE / "init").read_bytes())
    a.file("bin/busybox", pathlib.Path(tool("busybox", "busybox-static")).read_bytes())
    for name in ("ip", "rdma", "tc"):
        a.program(tool(name, "iproute2"), "tools/" + name)
    for name, data in modules:
        a.file(f"modules/{name}", data)
    a.file("modules/order", "".join(name + "\n" for name, _ in modules).encode())
    a.program(library("libibverbs/librxe-rdmav*.so"))
    a.file("etc/libibverbs.d/rxe.driver", b"driver rxe\n")
    a.file("etc/passwd", b"root:x:0:0::/:/bin/sh\n")
    a.program(args.program, "test/program")
    a.program(args.mlx5 or library("libmlx5.so.1"), "test/libmlx5.so.1")
    a.program(library("libibverbs.so.1"), "test/libibverbs.so.1")
    a.file("test/command", commands(args.loss or ["0"], args.arguments).encode())
    return a.bytes()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mlx5")
    parser.add_argument("--loss", action="append")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    qemu = tool("qemu-system-x86_64", "qemu-system-x86")
    try:
        image, modules = kernel.find()
    except kernel.Missing as missing:
        skip(missing)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "initrd").write_bytes(file_system(args, modules))
        machine = [qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "pc", "-m", "512", "-smp", "2",
                   "-serial", f"file:{work}/console", "-serial", f"file:{work}/out", "-kernel", str(image), "-initrd", f"{work}/initrd",
                   "-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on"]
        # Translated: the hardware's help (MARROW_TEST_ACCEL=kvm) is quicker, but there are machines where it is there and does not work.
        machine += ["-accel", os.environ.get("MARROW_TEST_ACCEL", "tcg"), "-cpu", "max"]
        try:
            words = subprocess.run(machine, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   timeout=args.seconds).stdout
        except subprocess.TimeoutExpired:
            words = f"the guest was still running after {args.seconds} s"
        out = (work / "out").read_text(errors="replace").replace("\r", "") if (work / "out").exists() else ""
        status = re.search(r"^GUEST-STATUS (\d+)$", out, re.M)
        print(re.sub(r"^GUEST-STATUS .*\n", "", out, flags=re.M), end="")
        if not status:
            print(words)
            print("\n".join((work / "console").read_text(errors="replace").splitlines()[-30:]) if (work / "console").exists() else "")
            print("the guest ended without a status")
        code = int(status.group(1)) if status else 1
        if code == 77:
            print("the program skipped in a guest that has two ports of soft-RoCE")
        return 1 if code == 77 else code


if __name__ == "__main__":
    sys.exit(main())
