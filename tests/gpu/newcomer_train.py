#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program as anybody may have one, which knows nothing of collscope: a model under DDP with NCCL, fed by DataLoader workers, one
part through torch.compile, trained for some steps, then served from a CUDA graph. Prints what it computed, nothing of time."""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WIDTH = 512
STEPS = 60


class Numbers(Dataset):
    def __len__(self):
        return 32 * 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        x = torch.randn(WIDTH, generator=generator)
        return x, x.roll(1)


def train(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)).cuda()
    ddp = DistributedDataParallel(model, device_ids=[rank])
    compiled = torch.compile(lambda x: torch.tanh(x) * torch.sigmoid(x) + x)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    data = Numbers()
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data, shuffle=False), num_workers=2, persistent_workers=True)
    losses, step = [], 0
    while step < STEPS:
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(ddp(compiled(x)).float(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
            if step == STEPS:
                break
    with torch.no_grad():
        static = torch.ones(16, WIDTH, device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            model(static)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            out = model(static)
            dist.all_reduce(out)
        for _ in range(200):
            graph.replay()
        torch.cuda.synchronize()
        served = out.double().sum().item()
    graph.reset()
    if rank == 0:
        print("losses", " ".join(f"{each:.6f}" for each in losses[::10]))
        print(f"served {served:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    ranks = torch.cuda.device_count()
    mp.spawn(train, args=(ranks, int(sys.argv[1])), nprocs=ranks)
