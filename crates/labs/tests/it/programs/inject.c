// What code that took over a thread of another program could do: makes that thread call the kernel, and prints for each
// attempt whether it was refused. What the thread did before goes on afterwards.
// usage: inject THREAD FILE PROCESS
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#ifndef __x86_64__
#error "only for x86_64"
#endif

// The instruction that a thread in a system call has behind it.
#define SYSCALL 0x050f
#define SYSCALL_BYTES 2

static pid_t thread;
static struct user_regs_struct before;
static unsigned long place;

// Copies a text below the stack of the thread, out of the reach of what it has there.
static unsigned long put(const char *text) {
  unsigned long at = place;
  for (size_t done = 0; done <= strlen(text); done += sizeof(long)) {
    long word = 0;
    memcpy(&word, text + done, strnlen(text + done, sizeof word));
    ptrace(PTRACE_POKEDATA, thread, at + done, word);
  }
  place += 512;
  return at;
}

static long call(long number, long a, long b, long c, long d) {
  struct user_regs_struct regs = before;
  int status;
  // Nothing to begin again: the call that the thread was in is restored with its registers.
  regs.orig_rax = -1;
  regs.rax = number;
  regs.rdi = a;
  regs.rsi = b;
  regs.rdx = c;
  regs.r10 = d;
  regs.r8 = 0;
  // Other threads run the same code, so that it cannot be changed.
  regs.rip = before.rip - SYSCALL_BYTES;
  ptrace(PTRACE_SETREGS, thread, 0, &regs);
  do {
    if (ptrace(PTRACE_SINGLESTEP, thread, 0, 0) != 0 || waitpid(thread, &status, __WALL) != thread)
      exit(2);
  } while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP);
  ptrace(PTRACE_GETREGS, thread, 0, &regs);
  return regs.rax;
}

// Stops the thread in a system call; false if it is elsewhere.
static int stopped_in_call(void) {
  int status;
  if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0 ||
      waitpid(thread, &status, __WALL) != thread || ptrace(PTRACE_GETREGS, thread, 0, &before) != 0) {
    perror("attach");
    exit(1);
  }
  long code = ptrace(PTRACE_PEEKTEXT, thread, before.rip - SYSCALL_BYTES, 0);
  return (code & 0xffff) == SYSCALL;
}

// An attempt that the kernel looked at may fail for what was passed; one that is refused fails for who asks.
static void said(const char *what, long result) {
  int refused = result == -EPERM || result == -EACCES || result == -EROFS;
  printf("%s %s %ld\n", what, refused ? "refused" : "possible", result);
  if (result >= 0 && (!strcmp(what, "write") || !strcmp(what, "connect")))
    call(SYS_close, result, 0, 0, 0);
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 1;
  thread = atoi(argv[1]);
  for (int tries = 0; !stopped_in_call(); tries++) {
    ptrace(PTRACE_DETACH, thread, 0, 0);
    if (tries == 1000) {
      fputs("the thread was in no system call\n", stderr);
      return 1;
    }
    usleep(1000);
  }
  place = (before.rsp - 4096) & ~0xfUL;
  unsigned long file = put(argv[2]), none = put("/no/such/program");
  said("write", call(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND, 0));
  said("start", call(SYS_execve, none, 0, 0, 0));
  said("load", call(SYS_bpf, 5, 0, 0, 0));
  said("map", call(SYS_bpf, 0, 0, 0, 0));
  said("connect", call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0));
  // Without PTRACE_ATTACH nothing stops; it is let go by the end of the thread that traces.
  long traced = call(SYS_ptrace, PTRACE_SEIZE, atoi(argv[3]), 0, 0);
  said("trace", traced);
  if (traced == 0) {
    call(SYS_ptrace, PTRACE_INTERRUPT, atoi(argv[3]), 0, 0);
    call(SYS_wait4, atoi(argv[3]), 0, __WALL, 0);
    call(SYS_ptrace, PTRACE_DETACH, atoi(argv[3]), 0, 0);
  }
  ptrace(PTRACE_SETREGS, thread, 0, &before);
  return ptrace(PTRACE_DETACH, thread, 0, 0) != 0;
}
