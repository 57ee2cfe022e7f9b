// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Threads off CPU because of storage, from leaving the CPU to running again. What storage is, the
 * kernel does not say: taken are sleeps that it counts as I/O, uninterruptible ones, and those in
 * system calls that wait for the caller's own I/O. User space drops what was none.
 */
#include "watched.bpf.h"
#include "who.bpf.h"

#define MAX_SLEEPERS	     16384
#define HINTS		     65536
#define TASK_INTERRUPTIBLE   0x0001
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_NOLOAD	     0x0400
#define ENDED_JUST_NOW_NS    20000

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SLEEPERS);
	__type(key, u32);
	__type(value, struct wire_wait);
} sleepers SEC(".maps");

/* How many sleepers there are by the low bits of their number: most threads are none. */
struct hints {
	u32 sleepers[HINTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hints);
} hints SEC(".maps");

/* The kernel keeps one stack for each hash; of two with the same hash the later goes to the other map. */
#define STACK_MAP(name)                                             \
	struct {                                                    \
		__uint(type, BPF_MAP_TYPE_STACK_TRACE);             \
		__uint(max_entries, WIRE_WAIT_STACKS);              \
		__uint(key_size, sizeof(u32));                      \
		__uint(value_size, WIRE_WAIT_FRAMES * sizeof(u64)); \
	} name SEC(".maps")

STACK_MAP(wait_stacks);
STACK_MAP(wait_stacks_2);

/* Stacks taken on this CPU in the current tenth of a second. */
struct wait_budget {
	u64 window_ns;
	u64 taken;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wait_budget);
} wait_budgets SEC(".maps");

static __always_inline u32 *hint_of(u32 tid)
{
	u32 zero = 0;
	struct hints *all = bpf_map_lookup_elem(&hints, &zero);

	return all ? &all->sleepers[tid & (HINTS - 1)] : NULL;
}

static __always_inline struct wire_wait *find_sleeper(u32 tid)
{
	u32 *hint = hint_of(tid);

	if (!hint || !*hint)
		return NULL;
	return bpf_map_lookup_elem(&sleepers, &tid);
}

static __always_inline bool is_among(const volatile unsigned long long *calls, int number)
{
	u32 call = number;

	if (call >= WIRE_CALLS)
		return false;
	return calls[call / 64] >> (call % 64) & 1;
}

static __always_inline int take_wait_stack(void *ctx, u64 now)
{
	u32 zero = 0;
	struct wait_budget *budget = bpf_map_lookup_elem(&wait_budgets, &zero);
	int stack;

	if (!budget)
		return -1;
	if (now - budget->window_ns >= WINDOW_NS) {
		budget->window_ns = now;
		budget->taken = 0;
	}
	if (budget->taken >= settings.wait_stacks_per_second / 10)
		return -1;
	budget->taken += 1;
	stack = bpf_get_stackid(ctx, &wait_stacks, 0);
	if (stack >= 0)
		return stack;
	stack = bpf_get_stackid(ctx, &wait_stacks_2, 0);
	if (stack >= 0)
		return stack + WIRE_WAIT_STACKS;
	count(COUNT_WAIT_STACKS);
	return stack;
}

/* The file that the task's system call was given as its first argument. */
static __always_inline void note_file(struct wire_wait *wait, struct task_struct *task,
				      struct pt_regs *regs)
{
	struct fdtable *table = READ(READ(task, files), fdt);
	u64 descriptor = (u32)first_argument_of(regs);
	struct file *file = NULL;
	struct inode *inode;

	if (!table || descriptor >= READ(table, max_fds))
		return;
	bpf_probe_read_kernel(&file, sizeof(file), READ(table, fd) + descriptor);
	if (!file)
		return;
	inode = READ(file, f_inode);
	if (!is_on_block_device(inode) || !identify(inode, &wait->inode))
		return;
	see_file(number_of(inode), number_of(READ(file, f_path.dentry)), ROOM_SUBMIT);
}

/* The wait's flags; 0 where it is none. */
static __always_inline u32 kind_of_sleep(struct task_struct *task, u32 state, int system_call)
{
	u32 flags = 0;

	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		flags |= WAIT_IOWAIT;
	if ((state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD))
		flags |= WAIT_UNINTERRUPTIBLE;
	if ((state & TASK_INTERRUPTIBLE) && is_among(settings.sleep_calls, system_call))
		flags |= WAIT_FOR_OWN;
	if (flags && task->flags & PF_KTHREAD)
		flags |= WAIT_KERNEL_THREAD;
	return flags;
}

static __always_inline void begin_sleep(void *ctx, struct task_struct *task)
{
	u32 state = task_state(task), tid = task->pid;
	struct wire_wait wait = { .kind = WIRE_WAIT, .stack = -1, .system_call = -1 };
	struct pt_regs *regs = NULL;
	u32 *hint;

	if (!state || !tid)
		return;
	if (!(task->flags & (PF_KTHREAD | PF_WORKERS))) {
		regs = (struct pt_regs *)bpf_task_pt_regs(task);
		wait.system_call = system_call_of(regs);
	}
	wait.flags = kind_of_sleep(task, state, wait.system_call);
	if (!wait.flags)
		return;
	wait.tgid = task->tgid;
	wait.tid = tid;
	wait.start_ns = bpf_ktime_get_ns();
	if (regs && is_among(settings.file_calls, wait.system_call))
		note_file(&wait, task, regs);
	/* Where it waits for its own I/O in a call made for that, the stack says nothing more. */
	if (!(wait.flags & WAIT_FOR_OWN))
		wait.stack = take_wait_stack(ctx, wait.start_ns);
	see_task(number_of(task), ROOM_SUBMIT);
	hint = hint_of(tid);
	if (!hint || bpf_map_update_elem(&sleepers, &tid, &wait, BPF_ANY)) {
		count(COUNT_SLEEPERS_FULL);
		return;
	}
	__sync_fetch_and_add(hint, 1);
}

static __always_inline void end_sleep(struct task_struct *task)
{
	u32 tid = task->pid;
	struct wire_wait *wait = find_sleeper(tid);
	u32 *hint;

	if (!wait)
		return;
	wait->end_ns = bpf_ktime_get_ns();
	emit(wait, sizeof(*wait), COUNT_RING_FULL_WAIT);
	bpf_map_delete_elem(&sleepers, &tid);
	hint = hint_of(tid);
	if (hint)
		__sync_fetch_and_add(hint, -1);
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	struct task_struct *previous = (struct task_struct *)ctx[1];

	/* Whoever is preempted did not choose to sleep. */
	if (!ctx[0])
		begin_sleep(ctx, previous);
	end_sleep((struct task_struct *)ctx[2]);
	return 0;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct wire_wait *wait = find_sleeper(task->pid);
	struct wire_ended *ended;
	u32 zero = 0;
	u64 now;

	if (!wait)
		return 0;
	now = bpf_ktime_get_ns();
	wait->wake_ns = now;
	ended = bpf_map_lookup_elem(&last_ended, &zero);
	if (ended && ended->time_ns >= wait->start_ns && now - ended->time_ns < ENDED_JUST_NOW_NS)
		wait->request = ended->request;
	else
		wait->waker = ((struct task_struct *)bpf_get_current_task_btf())->pid;
	return 0;
}

/* Whether the task sleeps and is off its CPU; what runs has its old state for a while. */
static __always_inline bool is_asleep(struct task_struct *task)
{
	return task_state(task) && !READ(task, on_cpu);
}

/* Threads that sleep already; they are followed from here on. */
SEC("iter/task")
int list_sleepers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wire_sleeper *sleeper;
	union room *room = room_of(ROOM_DIRTY);
	u32 state, tid, flags, *hint;
	long bytes;

	if (!task || !room || !is_asleep(task))
		return 0;
	state = task_state(task);
	tid = READ(task, pid);
	flags = kind_of_sleep(task, state, -1);
	if (!flags)
		return 0;
	sleeper = &room->sleeper;
	__builtin_memset(sleeper, 0, sizeof(*sleeper));
	sleeper->wait.kind = WIRE_WAIT;
	sleeper->wait.flags = flags | WAIT_BEGUN_BEFORE;
	sleeper->wait.tgid = READ(task, tgid);
	sleeper->wait.tid = tid;
	sleeper->wait.start_ns = bpf_ktime_get_ns();
	sleeper->wait.stack = -1;
	sleeper->wait.system_call = -1;
	see_task(number_of(task), ROOM_COMPLETE);
	hint = hint_of(tid);
	if (!hint)
		return 0;
	/* First the hint: who looks for the entry asks it. */
	__sync_fetch_and_add(hint, 1);
	if (bpf_map_update_elem(&sleepers, &tid, &sleeper->wait, BPF_NOEXIST)) {
		__sync_fetch_and_add(hint, -1);
		return 0;
	}
	/* It may have run between the look and this. */
	if (!is_asleep(task)) {
		if (bpf_map_delete_elem(&sleepers, &tid) == 0)
			__sync_fetch_and_add(hint, -1);
		return 0;
	}
	bytes = bpf_get_task_stack(task, sleeper->frames, sizeof(sleeper->frames), 0);
	if (bytes < 0)
		count(COUNT_WAIT_STACKS);
	bpf_seq_write(ctx->meta->seq, sleeper, sizeof(*sleeper));
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
