"""Tasks in parquet files and Hugging Face datasets, all of them on disk or in memory."""

import os
import pickle
import subprocess
import sys

import pytest

from envweave.errors import TaskNotFoundError, UnavailableError, UsageError
from envweave.tasks import Tasks

datasets = pytest.importorskip("datasets", reason="needs envweave[tasks]")
pytest.importorskip("pyarrow", reason="needs envweave[tasks]")

ROWS = [{"id": f"r{n}", "question": f"{n}?", "tests": [{"k": n}]} for n in range(5)]


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()


@pytest.fixture
def dataset():
    return datasets.Dataset.from_list(ROWS)


@pytest.fixture
def both(dataset):
    unnamed = dataset.remove_columns("id")
    return datasets.DatasetDict({"train": unnamed.select([0, 1, 2]), "test": unnamed.select([3, 4])})


@pytest.fixture
def parquet(tmp_path, dataset):
    """Five rows in groups of two."""
    path = tmp_path / "tasks.parquet"
    dataset.to_parquet(path, batch_size=2)
    return path


def test_the_rows_of_a_parquet_file_are_tasks(parquet):
    tasks = Tasks.from_parquet(parquet, split="dev")
    assert len(tasks) == 5
    assert [tasks[n]["question"] for n in (4, 0, 3, 1, 2)] == ["4?", "0?", "3?", "1?", "2?"]
    assert tasks["r3"] == {**ROWS[3], "split": "dev"}
    assert tasks.splits == {"dev": 5}
    assert list(pickle.loads(pickle.dumps(tasks))) == list(tasks)


def test_only_the_row_group_of_a_task_is_read(parquet, monkeypatch):
    from envweave.tasks import parquet as module

    groups = []

    class Watched(module.parquet.ParquetFile):
        def read_row_group(self, number, **options):
            groups.append(number)
            return super().read_row_group(number, **options)

    monkeypatch.setattr(module.parquet, "ParquetFile", Watched)
    tasks = Tasks.from_parquet(parquet)
    assert tasks.ids == ("r0", "r1", "r2", "r3", "r4")
    assert groups == []
    assert [tasks[n].id for n in (2, 3, 2, 4)] == ["r2", "r3", "r2", "r4"]
    assert groups == [1, 2]


def test_parquet_rows_without_ids_are_named_by_position(tmp_path, both):
    path = tmp_path / "unnamed.parquet"
    both["test"].to_parquet(path)
    assert Tasks.from_parquet(path).ids == ("0", "1")


def test_what_is_no_parquet_file_or_has_no_rows_is_refused(tmp_path, dataset):
    (tmp_path / "text.parquet").write_text("no")
    dataset.select([]).to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(UsageError, match=r"text\.parquet cannot be read"):
        Tasks.from_parquet(tmp_path / "text.parquet")
    with pytest.raises(UsageError, match=r"missing\.parquet cannot be read"):
        Tasks.from_parquet(tmp_path / "missing.parquet")
    with pytest.raises(UsageError, match=r"empty\.parquet has no tasks"):
        Tasks.from_parquet(tmp_path / "empty.parquet")


def test_the_rows_of_a_dataset_are_tasks(dataset):
    tasks = Tasks.from_dataset(dataset.with_format("numpy"))
    assert [dict(task) for task in tasks] == ROWS
    assert tasks["r2"] == ROWS[2]
    assert (type(tasks[0]["question"]), type(tasks[0]["tests"])) == (str, list)
    assert list(pickle.loads(pickle.dumps(tasks[1:]))) == list(tasks[1:])


def test_a_split_has_the_same_tasks_alone_and_among_the_others(both):
    tasks = Tasks.from_dataset(both)
    assert tasks.splits == {"train": 3, "test": 2}
    assert tasks.ids == ("train/0", "train/1", "train/2", "test/0", "test/1")
    assert list(Tasks.from_dataset(both, split="test")) == list(tasks.split("test"))
    assert tasks["test/1"] == {"id": "test/1", "split": "test", "question": "4?", "tests": [{"k": 4}]}


def test_folders_on_disk_are_datasets(tmp_path, both, dataset, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    both.save_to_disk(tmp_path / "saved")
    dataset.save_to_disk(tmp_path / "one")
    (tmp_path / "files").mkdir()
    both["train"].to_json(tmp_path / "files" / "train.jsonl")
    both["test"].to_json(tmp_path / "files" / "test.jsonl")
    assert list(Tasks.from_dataset(tmp_path / "saved")) == list(Tasks.from_dataset(both))
    assert Tasks.from_dataset(str(tmp_path / "one")).ids == tuple(row["id"] for row in ROWS)
    assert [task["question"] for task in Tasks.from_dataset(str(tmp_path / "files"), split="test")] == ["3?", "4?"]


def test_a_wrong_split_is_refused_with_those_that_there_are(both, dataset):
    with pytest.raises(TaskNotFoundError, match="no split 'dev'") as refused:
        Tasks.from_dataset(both, split="dev")
    assert refused.value.hint == "splits: 'train', 'test'"
    with pytest.raises(UsageError, match="not the name of a split"):
        Tasks.from_dataset(both, split="train[:2]")
    empty = datasets.DatasetDict({"train": dataset, "test": dataset.select([])})
    with pytest.raises(UsageError, match="the split 'test' of the dataset has no tasks"):
        Tasks.from_dataset(empty)


def test_an_id_that_occurs_twice_is_refused_with_both_splits(dataset):
    twice = datasets.DatasetDict({"train": dataset, "test": dataset.select([2])})
    with pytest.raises(UsageError, match=r"'r2' occurs twice: task 2 of .* 'train' and task 0 of .* 'test'"):
        _ = Tasks.from_dataset(twice).ids


def test_what_has_no_length_or_is_no_dataset_is_refused(dataset):
    with pytest.raises(UsageError, match="IterableDataset is not a dataset with a length"):
        Tasks.from_dataset(dataset.to_iterable_dataset())
    with pytest.raises(UsageError, match="a list is not a dataset"):
        Tasks.from_dataset(ROWS)
    with pytest.raises(UsageError, match="revision"):
        Tasks.from_dataset(dataset, revision="main")


def test_a_hub_that_cannot_be_reached_is_one_plain_error_that_says_what_to_do():
    code = """
import envweave as ew
try:
    ew.Tasks.from_dataset("nobody/nothing", split="train")
except ew.errors.UnavailableError as error:
    print(error)
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    message, hint = found.stdout.splitlines()
    assert message.startswith("the dataset 'nobody/nothing' cannot be loaded")
    assert hint.startswith("hint: without the hub: pass a folder")
    assert issubclass(UnavailableError, UsageError)


def test_without_the_packages_the_error_says_what_to_install(tmp_path):
    code = """
import sys
sys.modules["pyarrow"] = sys.modules["datasets"] = None
import envweave as ew
for load in (ew.Tasks.from_parquet, ew.Tasks.from_dataset):
    try:
        load("x")
    except ew.errors.UnavailableError as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    hint = "hint: pip install 'envweave[tasks]'"
    assert found.stdout.splitlines() == ["'pyarrow' is not installed", hint, "'datasets' is not installed", hint]
