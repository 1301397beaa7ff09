"""A word game in one file: tasks, an action of one text, a reward at the end."""

from dataclasses import dataclass

import envweave as ew


@dataclass
class Guess(ew.Action):
    """A word of five letters."""

    word: str


@dataclass
class Clue(ew.Observation):
    """One mark for each letter of the guess: `=` it stands here, `+` it stands elsewhere, `-` it is not in the word."""

    marks: str = ""
    guesses_left: int = 6


class WordGame(ew.Environment[Guess, Clue]):
    """Find a hidden word of five letters. Reply with a word only."""

    tasks = ew.Tasks([{"word": word} for word in ("crane", "lemon", "night", "piano", "sugar", "tiger")])

    def reset(self, *, task: ew.Task) -> Clue:
        self._word, self._left = task["word"], 6
        return Clue()

    def step(self, action: Guess) -> Clue:
        guess, self._left = action.word.strip().lower(), self._left - 1
        pairs = zip(guess, self._word, strict=False)
        marks = "".join("=" if one == other else "+" if one in self._word else "-" for one, other in pairs)
        won = guess == self._word
        return Clue(marks, self._left, reward=float(won), done=won or self._left == 0)
