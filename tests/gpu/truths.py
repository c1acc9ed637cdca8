# SPDX-License-Identifier: Apache-2.0
"""What must be true of the records of two ranks, given what their programs and NCCL's log say (tests/gpu/two_gpus.py). The same
holds when their segments are replayed later (tests/e2e/test_replay.py): each function yields (what, whether it is so, detail)."""
import collections
import statistics

BYTES = 43008
PER_STEP = 122


def collectives(objects, **want):
    return [o for o in objects if o["kind"] == "collective" and all(o[k] == v for k, v in want.items())]


def microseconds(found):
    return [(o["end_ns"] - o["start_ns"]) / 1e3 for o in found]


def chosen(truth, operation, size):
    """The algorithms and protocols that NCCL's log names for an operation of that size."""
    return {tuple(each) for each in truth["chosen"].get(f"{operation} {size}", [])}


def graph(objects, truths):
    for r, truth in enumerate(truths):
        seen = collectives(objects, rank=r, bytes=BYTES, impl="nccl", op="all_reduce", dtype="bfloat16", reduction="sum", world=2)
        replayed = [o for o in seen if o["graph"] is not None]
        want = PER_STEP * (truth["steps"] + 1)  # one eager pass before the capture
        yield f"rank {r}: every all-reduce, with its size and type", len(seen) == want, f"{len(seen)} of {want}"
        yield f"rank {r}: replays", len(replayed) == PER_STEP * truth["steps"], str(len(replayed))
        labels = {(o["algorithm"], o["protocol"]) for o in seen}
        log = chosen(truths[0], "AllReduce", BYTES)
        yield f"rank {r}: algorithm and protocol as NCCL's log", bool(log) and labels == log, f"{labels}, log {log}"
        communicators = {o["communicator"] for o in seen}
        yield (f"rank {r}: one communicator, of NCCL's log", len(communicators) == 1 and communicators <= set(truths[0]["communicators"]),
               f"{communicators}, log {truths[0]['communicators']}")
    # 9 is NCCL's number of bfloat16, 0 that of the sum.
    asked = [tuple(each) for each in truths[0]["asked"]]
    yield "count, type, reduction and ranks as NCCL's log", ("AllReduce", BYTES // 2, 9, 0, 2) in asked, str(asked[:6])
    seen = collectives(objects, impl="nccl", op="all_reduce")
    yield "every all-reduce matched with the other rank's", {o["matched_ranks"] for o in seen} == {2}, ""
    big = microseconds(collectives(objects, rank=0, bytes=truths[0]["event_bytes"]))
    mean, theirs = statistics.mean(big) if big else 0, truths[0]["event_us"]
    yield ("durations against CUDA events", len(big) == truths[0]["event_calls"] and abs(mean - theirs) <= 0.03 * theirs,
           f"{len(big)} of 64 MiB, mean {mean:.2f} us, events {theirs:.2f} us")


def two_communicators(objects, truths):
    seen = collectives(objects, rank=0, bytes=8 << 20)
    counts = collections.Counter(o["communicator"] for o in seen)
    yield "counted apart", sorted(counts.values()) == [truths[0]["calls_per_comm"]] * 2, str(dict(counts))
    # Independent: the intervals of the two communicators are intersected here.
    spans = collections.defaultdict(list)
    for o in seen:
        spans[o["communicator"]].append((o["start_ns"], o["end_ns"]))
    a, b = (sorted(s) for s in spans.values()) if len(spans) == 2 else ([], [])
    want = sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)
    have = sum(o["overlap_collective_ns"] or 0 for o in seen if o["communicator"] == list(spans)[0])
    yield "overlap", want > 0 and abs(have - want) <= 0.01 * want, f"{have / 1e3:.0f} us, recomputed {want / 1e3:.0f} us"


def late(objects, late_us, impl, tolerance_us):
    """Rank 1 comes late by a known time to every all-reduce of every replay. Transfer: that of rank 1, which waits for nobody."""
    seen = [o for o in collectives(objects, bytes=BYTES, impl=impl) if o["graph"] is not None and o["wait_ns"] is not None]
    early, last = ([o["wait_ns"] / 1e3 for o in seen if o["rank"] == r] for r in range(2))
    if not early or not last:
        yield "ranks matched", False, f"{len(early)} and {len(last)}"
        return
    have = statistics.median(early)
    yield "rank 0 waits for the delay", abs(have - late_us) <= tolerance_us, f"{have:.1f} us of {late_us} us"
    yield "rank 1 does not", statistics.median(last) <= tolerance_us, f"{statistics.median(last):.1f} us"
    arrivals = collections.Counter(o["rank"] for o in seen if o["last_arrival"])
    yield "the last is rank 1", arrivals[1] > 0.95 * sum(arrivals.values()), str(dict(arrivals))
    transfer = statistics.median(o["transfer_ns"] / 1e3 for o in seen)
    alone = statistics.median(microseconds(o for o in seen if o["rank"] == 1))
    yield "the transfer is rank 1's whole time", abs(transfer - alone) <= tolerance_us, f"{transfer:.1f} us of {alone:.1f} us"


def standin(objects, truths):
    for r, truth in enumerate(truths):
        seen = collectives(objects, rank=r, impl="vllm_custom", bytes=truth["message_bytes"], algorithm="one_shot")
        yield f"rank {r}", len(seen) == truth["all_reduce_total"], f"{len(seen)} of {truth['all_reduce_total']}"
