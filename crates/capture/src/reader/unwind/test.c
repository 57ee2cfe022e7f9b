/* A program of the tests: hands over its registers and its stack at a known depth, and waits. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")

int main(int argc, char **argv);
static void on_signal(int signal);
static void recursion(int depth);
static void variable(size_t bytes);
static void *thread(void *unused);

static const char *mode;

KEPT static void snapshot(void)
{
	static ucontext_t context;
	static uint64_t head[10];
	const char *stack;

	getcontext(&context);
#ifdef __x86_64__
	head[0] = context.uc_mcontext.gregs[REG_RIP];
	head[1] = context.uc_mcontext.gregs[REG_RSP];
	head[2] = context.uc_mcontext.gregs[REG_RBP];
#else
	head[0] = context.uc_mcontext.pc;
	head[1] = context.uc_mcontext.sp;
	head[2] = context.uc_mcontext.regs[29];
	head[3] = context.uc_mcontext.regs[30];
#endif
	head[4] = (uint64_t)snapshot;
	head[5] = (uint64_t)recursion;
	head[6] = (uint64_t)variable;
	head[7] = (uint64_t)on_signal;
	head[8] = (uint64_t)thread;
	head[9] = (uint64_t)main;
	if (write(1, head, sizeof(head)) != sizeof(head))
		_exit(1);
	/* Beyond the stack's end it writes less. */
	stack = (const char *)head[1];
	while (stack < (const char *)head[1] + 28672) {
		ssize_t written = write(1, stack, 512);

		if (written <= 0)
			break;
		stack += written;
	}
	close(1);
	/* Until the test has seen enough. */
	if (read(0, head, 1) < 0)
		_exit(1);
	_exit(0);
}

KEPT static void on_signal(int signal)
{
	(void)signal;
	snapshot();
	NO_TAIL_CALL;
}

KEPT static void variable(size_t bytes)
{
	char *room = alloca(bytes);

	memset(room, 7, bytes);
	if (!strcmp(mode, "signal"))
		raise(SIGUSR1);
	else
		snapshot();
	NO_TAIL_CALL;
	room[0] = room[bytes - 1];
}

KEPT static void recursion(int depth)
{
	volatile char local[100];

	local[depth] = depth;
	if (depth)
		recursion(depth - 1);
	else
		variable(1000 + local[0]);
	NO_TAIL_CALL;
}

KEPT static void *thread(void *unused)
{
	recursion(3);
	NO_TAIL_CALL;
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t id;

	mode = argc > 1 ? argv[1] : "";
	signal(SIGUSR1, on_signal);
	if (!strcmp(mode, "thread")) {
		pthread_create(&id, NULL, thread, NULL);
		pthread_join(id, NULL);
	} else {
		recursion(!strcmp(mode, "deep") ? 99 : 3);
	}
	NO_TAIL_CALL;
	return 0;
}
