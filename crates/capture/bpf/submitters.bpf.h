/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Submitters: threads and cgroups, sent when first seen, and the stacks of submissions.
 */
#ifndef IOWHY_SUBMITTERS_H
#define IOWHY_SUBMITTERS_H

#include "copied_stacks.bpf.h"
#include "file_of_bio.bpf.h"

SEEN_MAP(seen_tasks);
SEEN_MAP(seen_cgroups);

/* Appends a cgroup's name; returns its parent, 0 at the end. */
__noinline u64 name_cgroup(u64 node, u32 level)
{
	struct kernfs_node *kn = (struct kernfs_node *)node;
	u64 parent = number_of(kernfs_parent(kn));
	union room *room = room_of(level);

	if (!room || !parent)
		return 0;
	return add_name(&room->cgroup.names, READ(kn, name)) ? parent : 0;
}

__noinline int send_cgroup(u64 node, u64 id, u32 level)
{
	struct wire_cgroup *record;
	u64 next = node;
	union room *room;
	int depth;

	room = room_of(level);
	if (!room)
		return 0;
	record = &room->cgroup;
	record->kind = WIRE_CGROUP;
	record->padding = 0;
	record->id = id;
	clear_names(&record->names);
	for (depth = 0; next && depth <= WIRE_NAMES_MAX; depth++)
		next = name_cgroup(next, level);
	if (record->names.cut)
		count(COUNT_PATH_CUT);
	if (emit(record, NAMED_SIZE(struct wire_cgroup, record), COUNT_RING_FULL_DETAIL))
		mark_seen(seen_slot(&seen_cgroups, id), id, node);
	return 0;
}

/* Sends the cgroup of `node`, once. */
static __always_inline void see_cgroup(u64 node, u64 id, u32 level)
{
	if (!is_seen(seen_slot(&seen_cgroups, id), id, node))
		send_cgroup(node, id, level);
}

/* The task's cgroup: v2's on the unified hierarchy, else v1's blkio. */
static __always_inline u64 task_cgroup(struct task_struct *task, u32 level)
{
	struct css_set *set = READ(task, cgroups);
	u32 io = bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id);
	struct cgroup_subsys_state *css = NULL;
	struct cgroup *cgroup;
	struct kernfs_node *kn;
	u64 id;

	bpf_probe_read_kernel(&css, sizeof(css),
			      (void *)(number_of(set) +
				       bpf_core_field_offset(struct css_set, subsys) +
				       io * sizeof(css)));
	cgroup = READ(css, cgroup);
	if (!cgroup || READ(READ(cgroup, root), hierarchy_id) == 0)
		cgroup = READ(set, dfl_cgrp);
	kn = READ(cgroup, kn);
	id = READ(kn, id);
	if (kn)
		see_cgroup(number_of(kn), id, level);
	return id;
}

/*
 * Changes when a tid is reused, and when the thread takes another name, by exec or otherwise: it is
 * sent again then.
 */
static __always_inline u64 check_of_task(struct task_struct *task, u64 started)
{
	/* Reading two words as a pair of pointers is faster than copying text. */
	struct list_head *name =
		(struct list_head *)(number_of(task) +
				     bpf_core_field_offset(struct task_struct, comm));

	return started ^ number_of(READ(name, next)) ^ (number_of(READ(name, prev)) << 1);
}

/* Sends the identity of `task`. Apart from its caller, whose other callees need the stack, too. */
__noinline int send_task(u64 task_address, u64 cgroup, u32 level)
{
	struct task_struct *task = (struct task_struct *)task_address;
	struct task_struct *leader = READ(task, group_leader);
	struct file *exe = READ(READ(task, mm), exe_file);
	union room *room = room_of(level);
	struct wire_task *record;

	if (!room)
		return 0;
	record = &room->task;
	record->kind = WIRE_TASK;
	record->tgid = READ(task, tgid);
	record->tid = READ(task, pid);
	record->parent = READ(READ(leader, real_parent), tgid);
	record->user = READ(READ(task, cred), uid.val);
	record->io_priority = READ(READ(task, io_context), ioprio);
	record->policy = READ(task, policy);
	record->start_ns = READ(leader, start_boottime);
	record->cgroup = cgroup;
	__builtin_memset(&record->executable, 0, sizeof(record->executable));
	if (exe)
		identify(READ(exe, f_inode), &record->executable);
	BPF_CORE_READ_INTO(&record->process, leader, comm);
	BPF_CORE_READ_INTO(&record->thread, task, comm);
	return emit(record, sizeof(*record), COUNT_RING_FULL_DETAIL);
}

/* Sends the identity of `task`, its program and its cgroup, once. */
__noinline int see_task(u64 task_address, u32 level)
{
	struct task_struct *task = (struct task_struct *)task_address;
	u32 tid = READ(task, pid);
	u64 key = (u64)READ(task, tgid) << 32 | tid;
	u64 check = check_of_task(task, READ(task, start_boottime));
	struct seen *slot = seen_slot(&seen_tasks, tid);
	struct file *exe;

	/* Little is kept on the stack: before 6.13 a call chain of five functions has 512 bytes. */
	if (is_seen(slot, key, check))
		return 0;
	exe = READ(READ(task, mm), exe_file);
	if (exe)
		see_file(number_of(READ(exe, f_inode)), number_of(READ(exe, f_path.dentry)), level);
	if (send_task(task_address, task_cgroup(task, level), level))
		mark_seen(slot, key, check);
	return 0;
}

/* The same for the current task, without a call if it was seen: this runs for each request. */
static __always_inline void see_current(struct task_struct *task)
{
	u64 key = bpf_get_current_pid_tgid();

	if (!is_seen(seen_slot(&seen_tasks, (u32)key), key,
		     check_of_task(task, READ(task, start_boottime))))
		see_task(number_of(task), ROOM_SUBMIT);
}

/* A throttled bio is queued by a kernel worker: charge it to the thread that waits for it. */
static __always_inline void note_waiter(struct wire_request *r, struct task_struct *waiter)
{
	if (!(r->flags & REQUEST_KERNEL_THREAD) || !waiter)
		return;
	r->tgid = READ(waiter, tgid);
	r->tid = READ(waiter, pid);
	r->flags |= REQUEST_WORKER_FOR;
	see_task(number_of(waiter), ROOM_SUBMIT);
}

/*
 * I/O that a kernel thread does for io_uring is charged to the program. Its request begins with the
 * kiocb.
 */
static __always_inline void note_uring(struct wire_request *r, struct kiocb *iocb)
{
	u64 ending = settings.end_io[END_IO_URING];
	struct task_struct *task;

	if (!(r->flags & REQUEST_KERNEL_THREAD) || !iocb || !ending ||
	    number_of(READ(iocb, ki_complete)) != ending)
		return;
	task = uring_submitter((struct io_kiocb *)iocb);
	if (!task)
		return;
	r->tgid = READ(task, tgid);
	r->tid = READ(task, pid);
	r->flags &= ~REQUEST_KERNEL_THREAD;
	see_task(number_of(task), ROOM_SUBMIT);
}

/*
 * A stack is taken of every request at low rates, and of one in `stride` at higher rates. At very
 * high rates the budget is not used up: more stacks would not improve the picture, and a stack
 * costs more than a request.
 */
struct budget {
	u64 window_ns; /* start of the current window of a tenth of a second */
	u32 seen;      /* requests in it */
	u32 taken;     /* stacks in it */
	u32 stride;
	u32 since;  /* requests since the last stack */
	u32 number; /* stacks of this CPU so far */
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct budget);
} budgets SEC(".maps");

#define WINDOW_NS 100000000ULL
#define SPARSE	  8 /* above this multiple of the budget, this many times fewer stacks */

/* The number of requests that a stack taken now would represent; 0: take none. */
static __always_inline u32 stack_weight(struct budget *budget, u64 now)
{
	u32 allowed = settings.stacks_per_second / 10;
	u32 weight;

	if (now - budget->window_ns >= WINDOW_NS) {
		budget->stride = budget->seen / (allowed ? allowed : 1);
		if (budget->stride >= SPARSE)
			budget->stride *= SPARSE;
		budget->window_ns = now;
		budget->seen = 0;
		budget->taken = 0;
		budget->since = 0;
	}
	budget->seen += 1;
	/*
	 * Requests beyond the budget are represented by no stack, least of all by that of another
	 * task.
	 */
	if (budget->taken >= 2 * allowed)
		return 0;
	budget->since += 1;
	if (budget->since < budget->stride)
		return 0;
	weight = budget->since;
	budget->since = 0;
	budget->taken += 1;
	return weight;
}

static __noinline u32 send_stack(void *ctx, u32 number, u64 pid_tgid, bool user)
{
	union room *room = room_of(ROOM_SUBMIT);
	struct wire_stack *stack;
	long kernel, frames = 0;
	u64 size;

	if (!room)
		return 0;
	stack = &room->stack;
	stack->kind = WIRE_STACK;
	stack->sample = number;
	stack->tgid = pid_tgid >> 32;
	stack->tid = pid_tgid;
	kernel = bpf_get_stack(ctx, stack->frames, WIRE_KERNEL_FRAMES * 8, 0);
	if (kernel < 0) {
		count(COUNT_STACK_FAILED);
		return 0;
	}
	kernel &= 0x1ff;
	if (user)
		frames = bpf_get_stack(ctx, (void *)stack->frames + kernel, WIRE_USER_FRAMES * 8,
				       BPF_F_USER_STACK);
	if (frames < 0)
		frames = 0;
	stack->kernel_frames = kernel / 8;
	stack->user_frames = frames / 8;
	size = __builtin_offsetof(struct wire_stack, frames) + kernel + frames;
	if (size > sizeof(*stack))
		size = sizeof(*stack);
	return emit(stack, size, COUNT_RING_FULL_DETAIL) ? number : 0;
}

/* Takes a stack if the budget allows it and stores its number in `r`; returns false if not. */
static __always_inline bool take_stack(void *ctx, struct wire_request *r, u64 pid_tgid)
{
	u32 zero = 0;
	struct budget *budget = bpf_map_lookup_elem(&budgets, &zero);
	bool user = settings.user_stacks && !(r->flags & REQUEST_KERNEL_THREAD);
	struct wire_copied_process *process = NULL;
	bool copied = false;
	u32 weight;

	if (!budget)
		return false;
	weight = stack_weight(budget, r->queue_ns);
	if (!weight)
		return false;
	/* Requests of workers are another thread's. */
	if (user && pid_tgid == bpf_get_current_pid_tgid())
		process = copied_process(pid_tgid >> 32);
	if (process) {
		copied = may_copy(false);
		if (!copied && leave_out(process, weight))
			return false;
	}
	budget->number += 1;
	/* Unique across CPUs: the low bits are the CPU's. */
	r->stack = send_stack(ctx, (budget->number << 10 | (r->cpu & 0x3ff)), pid_tgid, user);
	if (!r->stack) {
		budget->since += weight;
		return true;
	}
	r->stack_weight = weight;
	if (process)
		r->stack_weight += take_left_out(process);
	if (process && copied)
		copy_stack(number_of(user_registers(current_task())), 0, r->stack,
			   process->is_deep);
	return true;
}

#endif
