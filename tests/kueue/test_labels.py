"""Kueue's labels are spelled in two rooms, since neither may import the other; they must not differ."""

from kueue_flux.api import labels as users
from kueue_flux.kueue import labels


def test_what_users_write_is_what_the_job_bears() -> None:
    assert labels.QUEUE_NAME == users.QUEUE
    assert labels.PRIORITY_CLASS == users.PRIORITY_CLASS
    assert labels.MAX_EXEC_TIME_SECONDS == users.MAX_EXEC_TIME


def test_every_label_is_kueues() -> None:
    names = [value for name, value in vars(labels).items() if name.isupper()]
    assert len(names) == 8
    assert all(users.is_kueues(name) for name in names)
