// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Threads off CPU because of storage, from leaving the CPU to running again. The kernel does not
 * say which sleeps are for storage: recorded are sleeps in iowait, uninterruptible ones, and those
 * in system calls that wait for the caller's own I/O. User space drops the others.
 */
#include "file_locks.bpf.h"
#include "skipped_waits.bpf.h"
#include "storage_sleeps.bpf.h"

#define DETACHING_NS 1000000000 /* detaching takes less than this */

static __always_inline void begin_sleep(void *ctx, struct task_struct *task)
{
	u32 state = state_of_sleep(ctx, task), tid = task->pid, flags, weight;
	struct wire_thinning *thin;
	struct pt_regs *regs = NULL;
	struct wire_thread *thread;
	int system_call = -1;

	if (!state || !tid)
		return;
	if (!(task->flags & (PF_KTHREAD | PF_WORKERS))) {
		regs = user_registers(task);
		system_call = system_call_of(regs);
	}
	flags = kind_of_sleep(task, state, system_call);
	if (!flags && (state & TASK_INTERRUPTIBLE) && may_wait_for_server(task, regs, system_call))
		flags = WAIT_FOR_SERVER;
	if (!flags) {
		if ((state & TASK_INTERRUPTIBLE) && regs &&
		    is_among(settings.thread_calls, system_call) && !is_idle_server(task, regs))
			begin_thread_sleep(ctx, tid, system_call, regs);
		else
			forget_timed(thread_of(tid), tid);
		return;
	}
	thread = thread_of(tid);
	forget_timed(thread, tid);
	if (thread && thread->sleepers)
		end_unseen(thread, tid);
	thin = thinning_now();
	weight = thin ? weight_now(thin->waits_one_in) : 0;
	if (thin && !weight) {
		if (thread)
			skip_sleep(thread, tid, flags, system_call);
		return;
	}
	record_sleep(ctx, task, regs, thread, flags, weight, system_call);
}

static __always_inline void end_sleep(struct task_struct *task)
{
	u32 tid = task->pid;
	struct wire_thread *thread = tid ? thread_of(tid) : NULL;
	struct wire_wait *wait;

	/* The idle task never sleeps. */
	if (!thread)
		return;
	if (is_skipped_sleep(thread, tid))
		end_skipped_sleep(thread, task);
	forget_unended(thread, tid);
	wait = find_sleeper(thread, tid);
	if (!wait)
		return;
	wait->end_ns = bpf_ktime_get_ns();
	/* All long ones are recorded, so that it stands for no other. */
	if (wait->weight > 1 && wait->end_ns - wait->start_ns >= WIRE_LONG_WAIT_NS)
		wait->weight = 1;
	mark_storage_wait(thread, tid, wait->start_ns, wait->end_ns);
	emit(wait, sizeof(*wait), COUNT_RING_FULL_WAIT);
	bpf_map_delete_elem(&sleepers, &tid);
	atomic_add(&thread->sleepers, -1);
}

SEC("tp_btf/sched_switch")
UNDISTURBED(on_switch)
{
	struct task_struct *previous = (struct task_struct *)ctx[1];

	/* A preempted task did not choose to sleep. */
	if (!ctx[0])
		begin_sleep(ctx, previous);
	end_sleep((struct task_struct *)ctx[2]);
	return 0;
}

SEC("tp_btf/sched_waking")
UNDISTURBED(on_waking)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tid = task->pid;
	struct wire_thread *thread = thread_of(tid);
	struct wire_wait *wait;

	if (!thread)
		return 0;
	if (thread->tid == tid && thread->asleep == SLEEP_FOR_THREAD)
		end_thread_sleep(ctx, thread, task);
	else if (is_skipped_sleep(thread, tid))
		wake_skipped(ctx, thread);
	wait = find_sleeper(thread, tid);
	if (wait) {
		wait->wake_ns = bpf_ktime_get_ns();
		note_waker(ctx, wait->start_ns, wait->wake_ns, &wait->request, &wait->waker);
	}
	return 0;
}

SEC("tp_btf/posix_lock_inode")
UNDISTURBED(on_posix_lock)
{
	return see_lock(ctx, false);
}

SEC("tp_btf/flock_lock_inode")
UNDISTURBED(on_flock)
{
	return see_lock(ctx, true);
}

/* Whether the task sleeps and is off its CPU; a running task keeps its old state for a while. */
static __always_inline bool is_asleep(struct task_struct *task)
{
	return task_state(task) && !is_on_cpu(task);
}

static __always_inline void fill_earlier(struct wire_wait *wait, struct task_struct *task)
{
	wait->kind = WIRE_WAIT;
	wait->flags |= WAIT_BEGUN_BEFORE;
	wait->tgid = READ(task, tgid);
	wait->tid = READ(task, pid);
	wait->start_ns = bpf_ktime_get_ns();
	wait->cpu_wait_ns = cpu_wait_of(task);
	wait->stack = wait->user_stack = -1;
	if (wait->flags & WAIT_UNINTERRUPTIBLE)
		wait->holder = lock_holder(task);
}

/*
 * Lists threads that are already asleep; they are tracked from here on. Once waits may be skipped,
 * these are the ones whose wait was skipped and lasts.
 */
SEC("iter/task")
int list_sleepers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wire_inode found = {};
	struct wire_sleeper *sleeper;
	union room *room = room_of(ROOM_LIST);
	struct pt_regs *regs = NULL;
	struct wire_thread *thread;
	int system_call = -1;
	u32 tid, flags;

	if (!task || !room || !is_asleep(task))
		return 0;
	tid = READ(task, pid);
	thread = thread_of(tid);
	if (thinning_now() && !is_long_skipped(thread, tid))
		return 0;
	if (!(READ(task, flags) & (PF_KTHREAD | PF_WORKERS))) {
		regs = user_registers(task);
		system_call = system_call_of(regs);
	}
	flags = kind_of_sleep(task, task_state(task), system_call);
	if (!thread)
		return 0;
	if (!flags && may_wait_for_server(task, regs, system_call))
		flags = WAIT_FOR_SERVER;
	if (!flags && regs && is_among(settings.thread_calls, system_call) &&
	    !is_idle_server(task, regs))
		add_earlier_thread_sleep(thread, task, tid, system_call, regs);
	if (!flags)
		return 0;
	/* First, because both use the same scratch buffer. */
	if (is_skipped_sleep(thread, tid))
		see_skipped(&found, thread, task, ROOM_LIST);
	else
		see_task(number_of(task), ROOM_LIST);
	sleeper = &room->sleeper;
	__builtin_memset(sleeper, 0, sizeof(*sleeper));
	sleeper->wait.flags = flags;
	sleeper->wait.system_call = system_call;
	if (is_skipped_sleep(thread, tid)) {
		sleeper->wait.kind = WIRE_WAIT;
		fill_skipped(&sleeper->wait, thread, task);
		sleeper->wait.inode = found;
		sleeper->wait.weight = 1;
		thread->asleep = SLEEP_NONE;
		thread->since_ns = 0;
	} else {
		fill_earlier(&sleeper->wait, task);
	}
	/* First the slot's counter: it is checked before the entry is looked up. */
	atomic_add(&thread->sleepers, 1);
	if (bpf_map_update_elem(&sleepers, &tid, &sleeper->wait, BPF_NOEXIST)) {
		atomic_add(&thread->sleepers, -1);
		return 0;
	}
	/* It may have run between the check and this point. */
	if (!is_asleep(task)) {
		if (bpf_map_delete_elem(&sleepers, &tid) == 0)
			atomic_add(&thread->sleepers, -1);
		return 0;
	}
	if (bpf_get_task_stack(task, sleeper->frames, sizeof(sleeper->frames), 0) < 0)
		count(COUNT_WAIT_STACKS);
	bpf_seq_write(ctx->meta->seq, sleeper, sizeof(*sleeper));
	return 0;
}

/*
 * Whether the thread slept for another one when the programs were detached. Detaching takes many
 * milliseconds, in which a time limit may have ended the sleep and nobody saw the next one begin.
 */
static __always_inline bool slept_at_end(struct wire_thread *thread)
{
	if (!thread->since_ns)
		return false;
	if (thread->asleep == SLEEP_FOR_THREAD)
		return true;
	return thread->is_timed && bpf_ktime_get_ns() - thread->woken_ns < DETACHING_NS;
}

/* Lists threads that sleep for other threads when the watch ends, with their call's arguments. */
SEC("iter/task")
int list_thread_sleepers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wire_thread_sleeper thread_sleeper = {};
	struct wire_thread *thread;
	struct pt_regs *regs;
	u32 tid;

	if (!task || !is_asleep(task) || (READ(task, flags) & (PF_KTHREAD | PF_WORKERS)))
		return 0;
	tid = READ(task, pid);
	thread = thread_of(tid);
	if (!thread || thread->tid != tid || !slept_at_end(thread))
		return 0;
	regs = user_registers(task);
	/* It may have been woken since, and sleep for something else now. */
	if (system_call_of(regs) != thread->system_call ||
	    first_argument_of(regs) != thread->address)
		return 0;
	fill_earlier(&thread_sleeper.wait, task);
	thread_sleeper.wait.flags = thread->flags | WAIT_FOR_THREAD;
	thread_sleeper.wait.start_ns = thread->since_ns;
	thread_sleeper.wait.system_call = thread->system_call;
	thread_sleeper.wait.user_stack = thread->user_stack;
	arguments_of(regs, thread_sleeper.arguments);
	if (thread->system_call == settings.futex_call)
		thread_sleeper.wait.address = thread->address;
	thread_sleeper.wait.holder = thread->holder;
	thread_sleeper.instruction = instruction_of(regs);
	thread_sleeper.stack_pointer = READ(regs, sp);
	thread_sleeper.frame_pointer = frame_pointer_of(regs);
	see_task(number_of(task), ROOM_LIST);
	bpf_seq_write(ctx->meta->seq, &thread_sleeper, sizeof(thread_sleeper));
	return 0;
}
