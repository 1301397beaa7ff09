"""Records of episodes: an event log for each episode, written while it runs and kept whatever happens to the process.

`Recorder` writes a run, `Record` reads it. docs/record.md describes the files.
"""

from envweave.record.log import EpisodeLog
from envweave.record.reader import Record, RecordedEpisode
from envweave.record.recorder import Recorder

__all__ = ["EpisodeLog", "Record", "RecordedEpisode", "Recorder"]
