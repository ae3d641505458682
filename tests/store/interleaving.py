"""Several actors on one storage, in any order that is drawn: each call to the storage is one step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from strandline.errors import StrandlineError
from strandline.store.local import LocalStorage

Actor = Callable[[Any], object]


class Turns:
    """Lets one actor at a time take one step."""

    def __init__(self) -> None:
        self.mine = threading.Semaphore(0)
        self.done = threading.Semaphore(0)

    def step(self) -> None:
        """In the actor: this step is over; wait for the next turn."""
        self.done.release()
        self.mine.acquire()


class SteppedStorage:
    """A storage whose calls each wait for the actor's turn."""

    def __init__(self, storage: LocalStorage, turns: Turns) -> None:
        self._storage, self._turns = storage, turns

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        if name not in {"create", "replace", "read", "open", "names", "exists", "delete"}:
            return found

        def stepped(*arguments: Any) -> Any:
            self._turns.step()
            if name == "delete":  # one file at a time: a crash or another actor may come in between
                for each in list(arguments[0]):
                    found([each])
                    self._turns.step()
                return None
            return found(*arguments)

        return stepped


def play(storage: LocalStorage, actors: list[Actor], order: Iterable[int]) -> int:
    """Run the actors step by step: whose turn it is says `order`; then all run to their end. How many steps the first took.

    An actor may fail with an error of ours: somebody else was faster.
    """
    turns = [Turns() for _ in actors]
    alive = set(range(len(actors)))

    def run(number: int) -> None:
        turns[number].mine.acquire()
        try:
            with suppress(StrandlineError):
                actors[number](SteppedStorage(storage, turns[number]))
        finally:
            alive.discard(number)
            turns[number].done.release()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(actors))]
    for thread in threads:
        thread.start()

    steps = [0] * len(actors)

    def turn(number: int) -> None:
        if number in alive:
            steps[number] += 1
            turns[number].mine.release()
            turns[number].done.acquire()

    for number in order:
        turn(number % len(actors))
    while alive:
        turn(min(alive))
    for thread in threads:
        thread.join()
    return steps[0]
