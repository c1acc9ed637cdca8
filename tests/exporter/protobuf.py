# SPDX-License-Identifier: Apache-2.0
"""As much of protobuf's wire format as Prometheus' exposition takes, by hand: fields by their numbers."""
import struct


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def unzigzag(value):
    return (value >> 1) ^ -(value & 1)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def decode(data):
    """One protobuf message: {field: [values]}."""
    fields = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack("<d", data[at:at + 8])[0], at + 8
        else:
            length, at = read_varint(data, at)
            value, at = data[at:at + length], at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def decode_families(data):
    at = 0
    while at < len(data):
        length, at = read_varint(data, at)
        yield decode(data[at:at + length])
        at += length
