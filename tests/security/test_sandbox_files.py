"""Files of the host, and files of the session that are not what they seem."""
# ruff: noqa: E501  (an attack is one line, however long)

import os
import secrets
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from envweave.errors import EnvWeaveError

PROJECT = Path(__file__).parents[2]


@pytest.fixture(params=["temporary", "home", "working folder", "project"])
def planted(request, tmp_path, canary):
    """A file of the host that anybody may read, with a secret in it."""
    name = f".{canary[:14]}-{secrets.token_hex(4)}"
    folders = {"temporary": tmp_path, "home": Path.home(), "working folder": Path.cwd(), "project": PROJECT}
    path = folders[request.param] / name
    path.write_text(canary)
    path.chmod(0o644)
    yield path
    path.unlink()


def test_a_file_of_the_host_cannot_be_read(session, value, planted):
    assert value(session, f"attempt(open, {str(planted)!r})") in ("ENOENT", "EACCES")


def test_a_file_of_the_host_cannot_be_reached_through_a_link(session, value, planted):
    value(session, f"os.symlink({str(planted)!r}, 'link')\nNone")
    assert value(session, "attempt(open, 'link')") in ("ENOENT", "EACCES")
    with pytest.raises(EnvWeaveError):
        session.read_file("link")


def test_a_file_of_the_host_cannot_be_overwritten_through_a_link(session, planted, canary):
    session.run(f"os.symlink({str(planted)!r}, 'link')")
    with suppress(EnvWeaveError):
        session.write_file("link", b"overwritten")
    assert planted.read_text() == canary


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow", "/etc/hosts", "/etc/resolv.conf", "/etc/machine-id", "/etc/ssl/private", str(Path.home()), "/run", "/var",
        "/sys", "/boot", "/mnt", "/srv", "/opt/secret", "/var/run/docker.sock", "/run/secrets", "/dev/kmsg", "/dev/mem", "/dev/kvm",
        "/dev/fuse", "/dev/tty", "/dev/ptmx", "/dev/sda", "/dev/vda", "/dev/net/tun", "/dev/userfaultfd",
    ],
)  # fmt: skip
def test_places_of_the_host_are_not_there(session, value, path):
    if any(path.startswith(prefix + "/") or path == prefix for prefix in (sys.prefix, sys.base_prefix)):
        pytest.skip("Python itself lies there")
    found = value(session, f"attempt(os.listdir if os.path.isdir({path!r}) else open, {path!r})")
    if any(Path(each).is_relative_to(path) for each in (sys.prefix, sys.base_prefix)):
        assert set(value(session, f"os.listdir({path!r})")) <= {
            Path(each).relative_to(path).parts[0]
            for each in (sys.prefix, sys.base_prefix)
            if Path(each).is_relative_to(path)
        }
    else:
        assert found in ("ENOENT", "EACCES", "ENXIO")


def test_the_passwords_of_the_host_are_not_there(session, value):
    assert value(session, "open('/etc/passwd').read().count('\\n')") == 1


def test_only_the_folders_of_the_session_can_be_written_to(session, value):
    writable = value(
        session,
        """
found = []
for folder, folders, _ in os.walk("/"):
    if folder.startswith(("/proc", "/sys")) or folder.count("/") > 4:
        folders.clear()
        continue
    try:
        os.close(os.open(f"{folder}/probe", os.O_CREAT | os.O_WRONLY))
        os.unlink(f"{folder}/probe")
        found.append(folder)
    except OSError:
        pass
found
""",
        timeout=60,
    )
    assert {"/home/agent/work", "/home/agent/tmp", "/home/agent/shm"} <= set(writable)
    assert [folder for folder in writable if not f"{folder}/".startswith("/home/agent/")] == []


@pytest.mark.parametrize(
    "change",
    [
        "open(target, 'a')", "os.chmod(target, 0o777)", "os.utime(target)", "os.unlink(target)", "os.rename(target, target + 'x')",
        "os.chown(target, 1000, 1000)", "os.setxattr(target, 'user.x', b'x')", "os.link(target, '/home/agent/work/hard')", "os.truncate(target, 0)",
        "os.symlink('/', os.path.dirname(target) + '/link')", "os.mkdir(os.path.dirname(target) + '/folder')",
    ],
)  # fmt: skip
def test_the_python_installation_cannot_be_changed(session, value, change):
    value(session, "import json.decoder; target = json.decoder.__file__\nNone")
    assert value(session, f"attempt(lambda: {change})") in ("EROFS", "EACCES", "EPERM", "EXDEV", "ENOTSUP")


@pytest.mark.parametrize("name", ["null", "zero", "full", "random", "urandom"])
def test_devices_cannot_be_replaced_or_changed(session, value, name):
    assert value(session, f"attempt(os.unlink, '/dev/{name}'), attempt(os.chmod, '/dev/{name}', 0)") != [
        "allowed",
        "allowed",
    ]
    assert "allowed" not in value(
        session, f"[attempt(os.unlink, '/dev/{name}'), attempt(os.rename, '/dev/{name}', '/dev/x')]"
    )


@pytest.mark.parametrize("kind", ["S_IFCHR", "S_IFBLK"])
def test_devices_cannot_be_made(session, value, kind):
    assert value(session, f"attempt(os.mknod, 'device', 0o666 | stat.{kind}, os.makedev(1, 1))") == "EPERM"


@pytest.mark.parametrize(
    "path", ["../../../etc/passwd", "/etc/passwd", "..", "../work/x", "a/../../x", "", ".", "/", "x\0y", "./../tmp/x"]
)
def test_paths_that_lead_out_of_the_work_folder_are_refused(session, path):
    with pytest.raises(EnvWeaveError):
        session.read_file(path)
    with pytest.raises(EnvWeaveError):
        session.write_file(path, b"x")


def test_a_folder_that_is_a_link_is_followed_neither_for_reading_nor_for_writing(session, value):
    value(session, "os.symlink('/etc', 'etc'); os.symlink('/home/agent/tmp', 'tmp')\nNone")
    for path in ("etc/passwd", "tmp/from-the-link"):  # a name that no folder of the host's /tmp has
        with pytest.raises(EnvWeaveError):
            session.read_file(path)
        with pytest.raises(EnvWeaveError):
            session.write_file(path, b"x")
    assert "from-the-link" not in value(session, "os.listdir('/home/agent/tmp')")


def test_links_are_not_listed_as_files(session):
    session.run(
        "os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root'); os.symlink('loop', 'loop'); os.mkfifo('fifo')"
    )
    assert session.list_files() == {}


def test_the_work_folder_itself_replaced_by_a_link_leads_nowhere(session):
    session.run(
        "os.chdir('/'); os.rename('/home/agent/work', '/home/agent/old'); os.symlink('/etc', '/home/agent/work')"
    )
    for ask in (lambda: session.read_file("passwd"), lambda: session.write_file("x", b"x"), session.list_files):
        try:
            found = ask()
        except EnvWeaveError:
            continue
        assert not found


def test_the_work_folder_removed_is_an_error_and_no_more(session):
    session.run(
        "import shutil; os.chdir('/'); shutil.rmtree('/home/agent/work'); open('/home/agent/work', 'w').close()"
    )
    for ask in (lambda: session.read_file("x"), lambda: session.write_file("x", b"x"), session.list_files):
        with pytest.raises(EnvWeaveError):
            ask()
    assert session.run("1").return_value == 1


def test_a_fifo_is_no_file_and_holds_nobody_up(session):
    session.run("os.mkfifo('fifo')")
    with pytest.raises(EnvWeaveError):
        session.read_file("fifo")
    session.write_file("fifo", b"now a file")
    assert session.read_file("fifo") == b"now a file"


def test_a_socket_is_no_file(session):
    session.run("server = socket.socket(socket.AF_UNIX); server.bind('sock')")
    with pytest.raises(EnvWeaveError):
        session.read_file("sock")


def test_a_folder_is_no_file(session):
    session.run("os.makedirs('folder/inner')")
    for ask in (lambda: session.read_file("folder"), lambda: session.write_file("folder", b"x")):
        with pytest.raises(EnvWeaveError):
            ask()


def test_writing_over_a_hard_link_leaves_the_other_name_as_it_was(session):
    session.run("open('one', 'w').write('first'); os.link('one', 'two')")
    session.write_file("two", b"second")
    assert session.read_file("one") == b"first"


def test_a_file_swapped_for_a_link_again_and_again_never_leads_out(session):
    session.run("""
def swap():
    while True:
        for make in (lambda: open("new", "w").write("inside"), lambda: os.symlink("/etc/passwd", "new")):
            make()
            os.replace("new", "file")
if not os.fork():
    swap()
time.sleep(0.05)
""")
    for _ in range(20):
        session.run("time.sleep(0.002)")
        try:
            assert session.read_file("file") in (b"inside", b"")
        except EnvWeaveError:
            pass


def test_a_folder_swapped_for_a_link_again_and_again_never_leads_out(session):
    session.run("""
def swap():
    os.makedirs("real", exist_ok=True); open("real/passwd", "w").write("inside"); os.symlink("/etc", "link")
    while True:
        call("renameat2", -100, b"real", -100, b"link", 2)
if not os.fork():
    swap()
time.sleep(0.05)
""")
    for n in range(20):
        session.run("time.sleep(0.002)")
        for name in ("real/passwd", "link/passwd"):
            try:
                assert session.read_file(name) == b"inside"
            except EnvWeaveError:
                pass
            with suppress(EnvWeaveError):
                session.write_file(f"{name}-{n}", b"x")
    assert all(name.count("/") <= 1 for name in session.list_files())


def test_a_file_that_may_not_be_read_is_an_error_or_its_contents(session):
    session.run("open('mine', 'w').write('x'); os.chmod('mine', 0)")
    try:
        assert session.read_file("mine") == b"x"
    except EnvWeaveError:
        pass


def test_a_folder_that_may_not_be_entered_holds_nobody_up(session):
    session.run("os.makedirs('shut/inner'); os.chmod('shut', 0)")
    try:
        assert isinstance(session.list_files(), dict)
    except EnvWeaveError:
        pass
    session.fork().close()


def test_a_unix_socket_of_the_host_with_a_path_is_not_there(session, value, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        os.chmod(tmp_path / "s", 0o777)
        assert value(session, f"attempt(socket.socket(socket.AF_UNIX).connect, {str(tmp_path / 's')!r})") == "ENOENT"


def test_an_abstract_unix_socket_of_the_host_is_not_there(session, value):
    name = f"\0envweave-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mailbox:
        server.bind(name)
        server.listen()
        mailbox.bind(name + "-mail")
        assert value(session, f"attempt(socket.socket(socket.AF_UNIX).connect, {name!r})") == "ECONNREFUSED"
        send = f"attempt(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto, b'x', {name + '-mail'!r})"
        assert value(session, send) == "ECONNREFUSED"


# -- /proc -------------------------------------------------------------------------------------------------------------


def test_no_process_of_the_host_is_seen(session, value):
    assert value(session, "strangers()") == []


@pytest.mark.parametrize(
    "name",
    [
        "mem",
        "environ",
        "maps",
        "root",
        "cwd",
        "exe",
        "fd",
        "fd/0",
        "ns/mnt",
        "ns/user",
        "map_files",
        "syscall",
        "stack",
        "auxv",
        "personality",
        "task/1/mem",
    ],
)
def test_the_first_process_cannot_be_looked_into(session, value, name):
    found = value(
        session,
        f"""
path = "/proc/1/{name}"
def look():
    if os.path.islink(path): return os.readlink(path)
    return os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(64)
attempt(look)
""",
    )
    assert found in ("EACCES", "EPERM", "ENOENT", "EIO")


@pytest.mark.parametrize(
    "name",
    [
        "sys",
        "kcore",
        "kallsyms",
        "kmsg",
        "keys",
        "cmdline",
        "config.gz",
        "modules",
        "sysrq-trigger",
        "timer_list",
        "iomem",
        "bus",
        "acpi",
        "irq",
        "sched_debug",
        "version",
        "meminfo",
        "mounts/../sys",
    ],
)
def test_the_kernel_tells_nothing_in_proc(session, value, name):
    assert value(session, f"os.path.exists('/proc/{name}') and attempt(open, '/proc/{name}')") is False


@pytest.mark.parametrize(
    "name",
    [
        "oom_score_adj",
        "oom_adj",
        "uid_map",
        "gid_map",
        "setgroups",
        "attr/current",
        "mem",
        "timens_offsets",
        "timerslack_ns",
        "coredump_filter",
        "comm",
        "clear_refs",
        "autogroup",
    ],
)
def test_nothing_of_a_process_is_changed_by_writing_to_proc(session, value, name):
    assert value(session, f"attempt(open, '/proc/self/{name}', 'r+b', 0)") in ("EACCES", "EPERM", "ENOENT", "EROFS")


def test_no_secret_of_the_host_is_in_the_environment(session, value, canary):
    names = value(session, "dict(os.environ)")
    assert canary not in str(names)
    assert set(names) <= {
        "PATH",
        "LANG",
        "HOME",
        "TMPDIR",
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "PYTHONHASHSEED",
        "LC_CTYPE",
    }


def test_no_secret_of_the_host_is_anywhere_in_memory(session, value, canary):
    session.set("backwards", canary[::-1])
    assert value(session, "holds(backwards)") == 0


def test_what_is_in_memory_would_be_found(session, value):
    """The search above is worth something."""
    assert value(session, "known = 'abc' * 7; holds(known[::-1])") > 0


def test_no_file_of_the_host_is_open(session, value):
    found = value(
        session,
        "{name: os.readlink(f'/proc/self/fd/{name}') for name in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{name}')}",
    )
    assert set(found) == {"0", "1", "2", "100"}
    assert found["0"] == "/dev/null"
    assert found["1"].startswith("pipe:")
    assert found["100"].startswith("socket:")


def test_the_name_of_the_host_is_not_told(session, value):
    assert value(session, "socket.gethostname()") == "sandbox"
