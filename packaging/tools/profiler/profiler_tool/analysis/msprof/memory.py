# SPDX-License-Identifier: Apache-2.0
"""Device memory: the blocks that were allocated while recording, and how much there was after each step."""
import dataclasses


@dataclasses.dataclass
class Block:
    name: str       # the call that allocated it, or "internal"
    requested: int  # bytes
    rounded: int    # what the allocation rules made of them
    start: int      # nanoseconds since 1970
    end: int = 0    # 0: not freed
    at_start: tuple = (0, 0)    # totals of the device after the allocation: requested and rounded bytes
    at_end: tuple = ()


@dataclasses.dataclass
class Device:
    blocks: list = dataclasses.field(default_factory=list)  # in the order of their allocation
    totals: list = dataclasses.field(default_factory=list)  # (time, requested, rounded, bytes by component)


def component(name):
    """The component, by CANN's names, whose memory a call allocates."""
    return 'DVPP' if 'dvpp' in name.lower() else 'HCCL' if name.startswith('Hccl') else 'RUNTIME'


def by_device(records, free):
    """Returns the devices that had any. Frees of blocks that were allocated before the recording are left out."""
    devices, live = {}, {}
    for r in sorted(records, key=lambda r: r.start):
        device = devices.setdefault(r.device, Device())
        requested, rounded, parts = device.totals[-1][1:] if device.totals else (0, 0, {})
        address = r.device, r.task << 32 | r.stream
        if r.kind == free:
            block = live.pop(address, None)
            if not block:
                continue
            sign = -1
        else:
            block, sign = Block(r.name, r.reason << 32 | r.implementation, r.bytes, r.start), 1
            live[address] = block
            device.blocks.append(block)
        requested, rounded = requested + sign * block.requested, rounded + sign * block.rounded
        of = component(block.name)
        device.totals.append((r.start, requested, rounded, {**parts, of: parts.get(of, 0) + sign * block.rounded}))
        if sign < 0:
            block.end, block.at_end = r.start, (requested, rounded)
        else:
            block.at_start = requested, rounded
    return {number: device for number, device in sorted(devices.items()) if device.blocks}
