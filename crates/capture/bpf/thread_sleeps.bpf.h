/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Interruptible sleeps in calls that end when another thread does something (a futex, a pipe, a
 * semaphore). Nearly all of them have nothing to do with storage, so they only cost a few words in
 * an array. A sleep is sent if the thread that ends it waited for storage meanwhile.
 */
#ifndef IOWHY_THREAD_SLEEPS_H
#define IOWHY_THREAD_SLEEPS_H

#include "call_files.bpf.h"
#include "thinning.bpf.h"
#include "wait_stacks.bpf.h"

/* CPU time that a thread takes at most between two parts of one sleep; see is_same_sleep(). */
#define SAME_SLEEP_NS  5000000
#define SLACK_EVERY_NS 1000000000

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIRE_THREADS);
	__type(key, u32);
	__type(value, struct wire_thread);
} places SEC(".maps");

static __always_inline struct wire_thread *thread_of(u32 tid)
{
	u32 key = tid & (WIRE_THREADS - 1);

	return bpf_map_lookup_elem(&places, &key);
}

/* Kernel stacks are 16 KiB, or 32 KiB with sanitizers. */
#define STACK_BYTES 32768

/*
 * Whether an interrupt is being handled: the current task is then unrelated. The handler and the
 * program's context are on a stack of their own, unless user code was interrupted: then the task is
 * not in a system call. The kernel's interrupt nesting counter is not a symbol on every kernel.
 */
static __always_inline bool is_in_interrupt(void *ctx, struct task_struct *task)
{
	u64 depth = number_of(ctx) - number_of(READ(task, stack));

	if (depth >= STACK_BYTES)
		return true;
	return !(READ(task, flags) & (PF_KTHREAD | PF_WORKERS)) &&
	       system_call_of(user_registers(task)) < 0;
}

/*
 * Whether an interrupt that ends the sleep delivers what the current task sends to a socket of this
 * machine: the loopback device hands it on in an interrupt that the sender raises. An interrupt of
 * another device may come in the same moment, but only seldom.
 */
static __always_inline bool is_sent_by(struct task_struct *task, struct wire_thread *sleeper)
{
	if (READ(task, flags) & (PF_KTHREAD | PF_WORKERS))
		return false;
	return is_among(settings.receive_calls, sleeper->system_call) &&
	       is_among(settings.send_calls, system_call_of(user_registers(task)));
}

/*
 * Assigns the slot to a thread; the number of storage sleepers is shared by all threads of the
 * slot.
 */
static __always_inline void take_thread(struct wire_thread *thread, u32 tid)
{
	thread->tid = tid;
	thread->asleep = SLEEP_NONE;
	thread->since_ns = 0;
	thread->since_jiffies = 0;
	thread->storage_wait_ns = 0;
	thread->is_chained = 0;
	thread->has_waited_long = 0;
	thread->holder = 0;
	thread->awake_ns = 0;
	thread->storage_ns = 0;
	thread->hidden_ns = 0;
	thread->slack_ns = 0;
	thread->told_ns = 0;
}

/* Whether its sleep may be long: to read the clock costs more than most else here. */
static __always_inline bool has_ticked(struct wire_thread *thread)
{
	return bpf_jiffies64() != thread->since_jiffies;
}

/* Marks the thread as a storage waiter: it ended a wait for storage, or for such a thread. */
static __always_inline void mark_storage_wait(struct wire_thread *thread, u32 tid, u64 since,
					      u64 now)
{
	if (thread->tid != tid)
		take_thread(thread, tid);
	thread->storage_wait_ns = now;
	thread->storage_ns += now - since;
	thread->has_waited_long = now - since >= WIRE_LONG_WAIT_NS;
}

/*
 * Whether a sleep goes on that only its time limit ended: the thread asks for the same again, has
 * slept for nothing else (see forget_timed()), and has done hardly anything. How long it waited for
 * a CPU does not matter, nor does a wakeup that was not seen: a kernel may leave out programs while
 * it runs certain tasks.
 */
static __always_inline bool is_same_sleep(struct wire_thread *thread, struct task_struct *task,
					  int system_call, u64 address)
{
	return thread->since_ns && thread->is_timed && thread->system_call == system_call &&
	       thread->address == address &&
	       READ(task, se.sum_exec_runtime) - thread->ran_ns <= SAME_SLEEP_NS;
}

/* The thread sleeps for something else: a sleep that a time limit ended does not go on. */
static __always_inline void forget_timed(struct wire_thread *thread, u32 tid)
{
	if (thread && thread->tid == tid && thread->is_timed)
		thread->since_ns = 0;
}

static __always_inline void begin_thread_sleep(void *ctx, u32 tid, int system_call,
					       struct pt_regs *regs)
{
	struct wire_thread *thread = thread_of(tid);
	u64 now = bpf_ktime_get_ns(), address = first_argument_of(regs);

	if (!thread)
		return;
	if (thread->tid != tid)
		take_thread(thread, tid);
	if (!is_same_sleep(thread, current_task(), system_call, address)) {
		thread->since_ns = now;
		thread->system_call = system_call;
		thread->address = address;
		thread->flags = 0;
		/* FUTEX_WAIT and similar commands have the timeout as their fourth argument. */
		thread->is_timed = system_call == settings.futex_call && fourth_argument_of(regs);
		/*
		 * A thread that was in a wait chain once is likely to be in one again, and worth a
		 * stack.
		 */
		thread->user_stack =
			thread->is_chained ? take_user_stack(ctx, now, regs, thread) : -1;
	}
	/* It does not run until it wakes. */
	thread->ran_ns = READ(current_task(), se.sum_exec_runtime);
	thread->since_jiffies = bpf_jiffies64();
	thread->asleep = SLEEP_FOR_THREAD;
}

/* Adds a sleep that began before the watch. */
static __always_inline void add_earlier_thread_sleep(struct wire_thread *thread,
						     struct task_struct *task, u32 tid,
						     int system_call, struct pt_regs *regs)
{
	if (thread->tid == tid && thread->asleep)
		return;
	take_thread(thread, tid);
	thread->since_ns = bpf_ktime_get_ns();
	thread->system_call = system_call;
	thread->address = first_argument_of(regs);
	thread->flags = WAIT_BEGUN_BEFORE;
	thread->is_timed = system_call == settings.futex_call && fourth_argument_of(regs);
	thread->ran_ns = READ(task, se.sum_exec_runtime);
	thread->user_stack = -1;
	thread->asleep = SLEEP_FOR_THREAD;
}

/* Sends the sleep of `task`, ended by `waker`, which waited for storage meanwhile. */
static __always_inline void send_thread_sleep(struct wire_thread *thread, struct task_struct *task,
					      struct task_struct *waker, u32 holder, u64 since,
					      u64 now)
{
	struct wire_wait wait = { .kind = WIRE_WAIT,
				  .flags = thread->flags | WAIT_FOR_THREAD,
				  .stack = -1 };

	if (!is_allowed(FOR_CHAINS, settings.chains_per_second, now)) {
		count(COUNT_CHAINS_SKIPPED);
		return;
	}
	wait.tgid = task->tgid;
	wait.tid = task->pid;
	wait.start_ns = since;
	wait.wake_ns = now;
	wait.end_ns = now;
	wait.system_call = thread->system_call;
	if (thread->system_call == settings.futex_call)
		wait.address = thread->address;
	wait.user_stack = thread->user_stack;
	wait.waker = READ(waker, pid);
	wait.holder = holder;
	if (holder) {
		wait.flags |= WAIT_FOR_FILE_LOCK;
		note_lock_file(&wait.inode, task);
	}
	see_task(number_of(task), ROOM_WAKE);
	see_task(number_of(waker), ROOM_WAKE);
	emit(&wait, sizeof(wait), COUNT_RING_FULL_WAIT);
	thread->is_chained = 1;
}

/*
 * A thread that runs does not sleep, whatever its slot says: who wakes a thread in the moment in
 * which it begins to sleep finds no sleep to end. Left as it is, the slot would be ended by the
 * thread's next waker while the next sleep is being written to it.
 */
static __always_inline void forget_unended(struct wire_thread *thread, u32 tid)
{
	if (thread && thread->tid == tid && thread->asleep == SLEEP_FOR_THREAD)
		thread->asleep = SLEEP_NONE;
}

/*
 * A sleep for a thread that did not wait for storage: the waits for storage before it are hidden if
 * that thread is of the same process and did not sleep meanwhile itself, as one that hands out work
 * does. Sent at most once a second.
 */
static __always_inline void note_slack(struct wire_thread *thread, struct task_struct *task,
				       struct wire_thread *of_waker, struct task_struct *waker,
				       u64 since, u64 now)
{
	struct wire_slack slack = {};

	if (!thread->storage_ns || of_waker->awake_ns > since || READ(waker, tgid) != task->tgid)
		return;
	thread->hidden_ns += thread->storage_ns;
	thread->slack_ns += now - since;
	if (now - thread->told_ns < SLACK_EVERY_NS)
		return;
	/* Not in the initializer: that would be a constant in a section of its own. */
	slack.kind = WIRE_SLACK;
	slack.tgid = task->tgid;
	slack.tid = task->pid;
	slack.time_ns = now;
	slack.hidden_ns = thread->hidden_ns;
	slack.slept_ns = thread->slack_ns;
	see_task(number_of(task), ROOM_WAKE);
	emit(&slack, sizeof(slack), COUNT_RING_FULL_WAIT);
	thread->hidden_ns = 0;
	thread->slack_ns = 0;
	thread->told_ns = now;
}

static __always_inline void end_thread_sleep(void *ctx, struct wire_thread *thread,
					     struct task_struct *task)
{
	u64 since = thread->since_ns, now;
	u32 holder = thread->holder;
	struct task_struct *waker;
	struct wire_thread *of_waker;

	thread->asleep = SLEEP_NONE;
	thread->since_ns = 0;
	thread->holder = 0;
	/* Another thread takes the slot at this moment. */
	if (!since)
		return;
	/* While waits are thinned, sleeps within a jiffy are not worth reading the clock. */
	if (are_waits_thinned() && !thread->is_timed && !has_ticked(thread))
		return;
	now = bpf_ktime_get_ns();
	if (now - since < settings.thread_sleep_ns && !thread->is_timed)
		return;
	thread->awake_ns = now;
	waker = current_task();
	if (is_in_interrupt(ctx, waker) && !is_sent_by(waker, thread)) {
		/* A timeout interrupted it; other interrupts are events from elsewhere. */
		thread->woken_ns = now;
		if (thread->is_timed)
			thread->since_ns = since;
		return;
	}
	if (now - since < settings.thread_sleep_ns)
		return;
	of_waker = thread_of(READ(waker, pid));
	if (of_waker && of_waker->tid != READ(waker, pid))
		of_waker = NULL;
	/* Who holds a file's lock may have left the work, and the release, to a child. */
	if (!holder && (!of_waker || of_waker->storage_wait_ns <= since)) {
		if (of_waker)
			note_slack(thread, task, of_waker, waker, since, now);
		thread->storage_ns = 0;
		return;
	}
	thread->storage_ns = 0;
	send_thread_sleep(thread, task, waker, holder, since, now);
	thread->storage_wait_ns = now;
}

#endif
