"""Runs a command for which the kernel refuses BPF programs, as a policy does: EPERM before the program's
first instruction is looked at.

usage: refuse.py NAME[,NAME...] COMMAND...

The command keeps this process's number. A process aside answers for the kernel (seccomp's user
notification) until the command and all that it started have ended.
"""
import array
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import sys

BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
SECCOMP = {"x86_64": 317, "aarch64": 277}[platform.machine()]
PROG_LOAD = 5
# Where the name begins in the attributes of a load, and how long it is at most.
NAME_AT, NAME_LENGTH = 48, 16
RECEIVE, SEND = 0xC0502100, 0xC0182101
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
SET_MODE_FILTER, NEW_LISTENER = 1, 8
CONTINUE = 1


def filter_loads():
    """Has loads of BPF programs answered through the descriptor that is returned."""
    load, equal, answer = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 0),
        (equal, 0, 3, BPF),
        (load, 0, 0, 16),
        (equal, 0, 1, PROG_LOAD),
        (answer, 0, 0, NOTIFY),
        (answer, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    listener = libc.syscall(SECCOMP, SET_MODE_FILTER, NEW_LISTENER, program)
    if listener < 0:
        code = ctypes.get_errno()
        sys.exit(f"refuse: no user notification of seccomp: {os.strerror(code)}")
    return listener


def name_of(pid, address):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address + NAME_AT)
        return memory.read(NAME_LENGTH).split(b"\0")[0].decode()


def answer(listener, refused):
    request = bytearray(80)
    try:
        fcntl.ioctl(listener, RECEIVE, request)
    except OSError as error:
        # It ended, or was interrupted, before this was asked.
        if error.errno in (errno.ENOENT, errno.EINTR):
            return
        raise
    number, pid = struct.unpack_from("QI", request)
    address = struct.unpack_from("QQ", request, 32)[1]
    try:
        is_refused = name_of(pid, address) in refused
    except OSError:
        is_refused = False
    code, flags = (-errno.EPERM, 0) if is_refused else (0, CONTINUE)
    try:
        fcntl.ioctl(listener, SEND, struct.pack("QqiI", number, 0, code, flags))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def supervise(channel, refused):
    channel.settimeout(60)
    descriptors = array.array("i")
    _, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_LEN(descriptors.itemsize))
    descriptors.frombytes(ancillary[0][2][: descriptors.itemsize])
    listener = descriptors[0]
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    channel.send(b".")
    while True:
        for _, events in waiting.poll():
            if events & select.POLLHUP:
                return
            answer(listener, refused)


def main():
    refused = {name[: NAME_LENGTH - 1] for name in sys.argv[1].split(",")}
    here, aside = socket.socketpair()
    child = os.fork()
    if child == 0:
        # Nobody waits for the grandchild but the first process.
        if os.fork() == 0:
            here.close()
            quiet = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(quiet, descriptor)
            supervise(aside, refused)
        os._exit(0)
    os.waitpid(child, 0)
    aside.close()
    listener = filter_loads()
    here.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)
    here.recv(1)
    here.close()
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
