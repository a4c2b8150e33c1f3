"""The bytes of AVX-512 code as a CPU with AVX-512 executes it: Bochs, which emulates one whole,
boots a Linux kernel whose only program compares the outputs' digests.

Needs Debian's bochs, bochsbios, vgabios, grub-pc-bin, grub-common, xorriso, mtools, busybox-static
and cpio, and a kernel image in $SARDONYX_KERNEL (.ci/run takes it out of linux-image-cloud-amd64).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from slices import slice_of
from targets import Target, compiled, write
from test_targets import NETWORKS

from sardonyx.machine import Machine

TOOLS = ("bochs", "grub-mkrescue", "xorriso", "cpio", "busybox")
COMPUTERS = [  # the compiler's flags, Bochs's name, and what /proc/cpuinfo must say
    ("-march=x86-64-v4", "corei7_skylake_x", "avx512f"),
    # not -march=icelake-client: Bochs 2.7 refuses vgatherqps with an index in ymm30
    ("-march=x86-64-v4 -mavx512vnni", "corei7_icelake_u", "avx512_vnni"),
]
SECONDS = 900
# Bochs reports a size of the compacted register state that Linux 6.1 does not believe (321, 323),
# and a place of protection keys (515) among AVX-512's. With what else is off here its Ice Lake
# went astray as soon as Linux wrote into its own code. Its sound dies where there is no card.
GRUB = """
set timeout=0
menuentry sardonyx {
  linux /boot/vmlinuz console=ttyS0 nosmp mitigations=off tsc=reliable \
clearcpuid=321,323,515,534,580 nopcid noinvpcid nofsgsbase nosmap nosmep
  initrd /boot/initrd
}
"""
INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
echo 1 > /proc/sys/kernel/printk
exec > /dev/ttyS0 2>&1
/bin/busybox grep -m1 flags /proc/cpuinfo
/program /in /out
echo "digest $(/bin/busybox sha256sum /out)"
echo finished
while true; do /bin/busybox sleep 100; done
"""
BOCHS = """
megs: 256
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
cpu: model={model}, count=1, ips=50000000
ata0-master: type=cdrom, path={folder}/disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev={folder}/serial
log: {folder}/log
display_library: rfb, options="timeout=0"
sound: waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
clock: sync=none
"""


def disk(folder: Path, program: Path, given: bytes) -> None:
    """A bootable image whose only program reads these inputs."""
    root, boot = folder / "root", folder / "disk" / "boot"
    for path in (root / "bin", root / "dev", root / "proc", boot / "grub"):
        path.mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", root / "bin" / "busybox")
    shutil.copy(program, root / "program")
    (root / "in").write_bytes(given)
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    with (boot / "initrd").open("wb") as file:
        names = "\n".join(str(p.relative_to(root)) for p in sorted(root.rglob("*")))
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(),
                       stdout=file, check=True)  # fmt: skip
    shutil.copy(os.environ["SARDONYX_KERNEL"], boot / "vmlinuz")
    (boot / "grub" / "grub.cfg").write_text(GRUB)
    command = ["grub-mkrescue", "-o", folder / "disk.iso", folder / "disk"]
    subprocess.run(command, check=True, capture_output=True)


def booted(folder: Path, model: str) -> list[str]:
    """What the machine says on its serial line until it is finished."""
    (folder / "bochsrc").write_text(BOCHS.format(folder=folder, model=model))
    (folder / "commands").write_text("c\n")
    command = ["bochs", "-q", "-f", folder / "bochsrc", "-rc", folder / "commands"]
    serial = folder / "serial"
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as bochs:  # fmt: skip
        end = time.monotonic() + SECONDS
        said: list[str] = []
        while "finished" not in said and time.monotonic() < end and bochs.poll() is None:
            time.sleep(1)
            if serial.exists():
                said = serial.read_text(errors="replace").splitlines()
        with suppress(ProcessLookupError):
            os.killpg(bochs.pid, 9)
    return said


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "model", "flag"), COMPUTERS)
def test_avx512_gives_the_bytes_of_the_machine(
    flags: str, model: str, flag: str, tmp_path: Path
) -> None:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or "SARDONYX_KERNEL" not in os.environ:
        pytest.skip(f"there is no {missing[0] if missing else 'kernel in $SARDONYX_KERNEL'}")
    graph, feeds = slice_of(NETWORKS)
    written = write(graph, tmp_path / "source")
    given = b"".join(feeds[name].tobytes() for name in written.program.inputs)
    found = Machine(graph).run(feeds)
    expected = b"".join(found[name].tobytes() for name in written.program.outputs)
    target = Target(model, ("gcc", "-O3", *flags.split(), "-static"))
    disk(tmp_path, compiled(written, target), given)
    said = booted(tmp_path, model)
    assert any(flag in line.split() for line in said), said[-20:]
    assert f"digest {sha256(expected).hexdigest()}  /out" in said, said[-20:]
