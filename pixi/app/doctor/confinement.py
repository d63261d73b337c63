"""The part of `doctor` that looks at what confines the processes that read strangers' documents."""

import os
import sys

from pixi.core.errors import ConfigError


async def look_at_confinement() -> list[tuple[bool, str, str]]:
    """List the findings: whether each is fine, its subject, a text. One such process is started and asked."""
    from pixi.documents import Readers

    try:
        async with Readers(workers=1) as readers:
            kept = await readers.confinement()
    except ConfigError as error:
        return [(False, "readers", str(error))]
    fences = {"Landlock": bool(kept.landlock), "seccomp": kept.seccomp}
    there = [name for name, holds in fences.items() if holds]
    lacking = [name for name, holds in fences.items() if not holds]
    if not lacking:
        told = (
            "documents are read by processes that the kernel keeps from everything else (Landlock, seccomp)"
        )
    elif sys.platform != "linux":
        told = "documents are read by processes that Python keeps from files and the network; Linux does more"
    else:
        told = (
            f"this kernel keeps processes that read documents by {' and '.join(there) or 'neither'}; without "
            f"{' and '.join(lacking)}, a document that takes one over could do harm: see docs/databases.md"
        )
    # One of the two is what some systems have; nobody can mend it, so it is told and no fault.
    findings = [(bool(there) or sys.platform != "linux", "readers", told)]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        root = "Pixi runs as root, so MCP servers do, and can read its keys; run it as a user of its own"
        findings.append((True, "user", root))
    return findings
