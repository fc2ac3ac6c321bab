"""One rank of torch.distributed with gloo, told what to do by a rank of bench.

usage: torch_peer.py PREFIX RANK SIZE

Reads commands from the FIFO PREFIX.RANK.in and answers on PREFIX.RANK.out, a line each; ends when
the commands end. The store lives as long as the process, as that of Muster's pool does.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

TIMEOUT = datetime.timedelta(seconds=30)


def wait_for(path):
    deadline = time.monotonic() + TIMEOUT.total_seconds()
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise RuntimeError("rank 0 did not say where its store is")
        time.sleep(0.01)
    with open(path) as file:
        return int(file.read())


def make_store(prefix, rank, size):
    path = prefix + ".port"
    if rank > 0:
        return dist.TCPStore("127.0.0.1", wait_for(path), size, False, TIMEOUT)
    store = dist.TCPStore("127.0.0.1", 0, size, True, TIMEOUT, wait_for_workers=False)
    with open(path + ".new", "w") as file:
        file.write(str(store.port))
    os.rename(path + ".new", path)
    return store


class Peer:
    def __init__(self, store, rank, size):
        self.store, self.rank, self.size, self.generation = store, rank, size, 0

    def open(self):
        self.generation += 1
        dist.init_process_group(
            "gloo",
            store=dist.PrefixStore(str(self.generation), self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=TIMEOUT,
        )
        return 0

    def close(self):
        dist.destroy_process_group()
        return 0

    def cycle(self):
        begin = time.perf_counter_ns()
        self.open()
        self.close()
        return time.perf_counter_ns() - begin

    def all_reduce(self, count, iterations):
        values = torch.full((count,), float(self.rank + 1))
        dist.all_reduce(values)
        expected = self.size * (self.size + 1) / 2
        if not bool((values == expected).all()):
            raise RuntimeError(f"a sum over {self.size} ranks is {values[0]}: expected {expected}")
        values.zero_()
        dist.all_reduce(values[:1])  # begin together
        begin = time.perf_counter_ns()
        for _ in range(iterations):
            dist.all_reduce(values)
        return (time.perf_counter_ns() - begin) / iterations


def main():
    prefix, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    commands = open(f"{prefix}.{rank}.in")
    with open(f"{prefix}.{rank}.out", "w", buffering=1) as answers:
        try:
            peer = Peer(make_store(prefix, rank, size), rank, size)
            answers.write("ok 0\n")
            for line in commands:
                name, *numbers = line.split()
                answers.write(f"ok {getattr(peer, name)(*map(int, numbers)):.0f}\n")
        except Exception as error:  # told to bench, which ends the run
            answers.write("error " + " ".join(str(error).split()) + "\n")


main()
