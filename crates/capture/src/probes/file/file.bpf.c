// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Use of files: system calls when they return (their arguments are still available), io_uring
 * requests when they complete, and page faults on mapped files. This runs for every system call of
 * the machine, so calls that are not for files return at once.
 */
#include "aio_submissions.bpf.h"
#include "named_files.bpf.h"

#define STARTS	    65536
#define SECOND_PATH (1U << 31) /* beside the kind of a call: its second path */

/* The start of the calls that threads are in, indexed by the low bits of the tid. */
struct start {
	u32 tid;
	u32 system_call;
	u64 time_ns;
};

struct starts {
	struct start of[STARTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct starts);
} starts SEC(".maps");

static __always_inline struct start *start_of(u32 tid)
{
	u32 zero = 0;
	struct starts *all = bpf_map_lookup_elem(&starts, &zero);

	return all ? &all->of[tid & (STARTS - 1)] : NULL;
}

/* 64 bits wide: the verifier does not track a bounds check of half a register. */
static __always_inline u32 use_of_call(u64 number)
{
	return number < WIRE_CALLS ? settings.call_uses[number] : 0;
}

/* The duration of the call that returns; 0 if its beginning was not seen. */
static __always_inline u64 duration_of(u32 tid, u32 number)
{
	struct wire_control *now = control();
	struct start *start;
	u64 began;

	if (!now || !now->timed)
		return 0;
	start = start_of(tid);
	if (!start || start->tid != tid || start->system_call != number)
		return 0;
	began = start->time_ns;
	start->tid = 0;
	return bpf_ktime_get_ns() - began;
}

static __always_inline void charge_path(struct wire_slots *own, struct task_struct *task,
					struct naming *naming, struct outcome *outcome)
{
	bool opened = naming->kind == USE_OPEN && outcome->result >= 0;
	struct file *file = NULL;
	struct dentry *base;
	struct wire_call *call;
	bool sent;

	if (opened) {
		file = file_of(task, outcome->result);
		if (!file)
			return;
		charge_open(slot_of_file(own, file, task, ROOM_SUBMIT), file, outcome);
		if (!settings.each_open)
			return;
	}
	call = read_call(naming, task, &base);
	if (!call)
		return;
	/* With an empty path the call is for the descriptor. */
	if (!call->bytes && !opened) {
		file = file_of(task, naming->directory);
		charge(slot_of_file(own, file, task, ROOM_SUBMIT), naming->kind, outcome);
		return;
	}
	call->inode.address = 0;
	if (opened)
		identify(READ(file, f_inode), &call->inode);
	sent = is_sent(naming->kind, outcome->result) && send_call(call, base, naming, outcome);
	/*
	 * Calls sent one by one are not in the sums, except for opens. Only the path shows which
	 * device it is: user space drops what is not watched.
	 */
	if (!opened && !naming->second && (!sent || naming->kind == USE_OPEN))
		charge(slot_of_path(own, call, base, task), naming->kind, outcome);
}

/*
 * A call that names a file: a successful open is charged to the file, everything else to the
 * directory. A global function, as the next one: the verifier checks it once and not for each shape
 * of a call.
 */
__noinline int on_path(u32 kind, u64 text, u32 directory, s64 result, u64 duration_ns)
{
	struct naming naming = {
		.text = text,
		.directory = directory,
		.kind = kind & ~SECOND_PATH,
		.second = !!(kind & SECOND_PATH),
	};
	struct outcome outcome = { .result = result, .duration_ns = duration_ns };
	struct wire_slots *own = own_slots();

	if (own)
		charge_path(own, current_task(), &naming, &outcome);
	return 0;
}

/* A call that uses a descriptor beside another one. */
__noinline int on_other_descriptor(u32 kind, u64 descriptor, s64 result, u64 duration_ns)
{
	struct outcome outcome = { .result = result, .duration_ns = duration_ns };
	struct wire_slots *own = own_slots();

	if (own)
		on_descriptor(own, current_task(), kind, descriptor, &outcome);
	return 0;
}

static __always_inline void on_shape(struct pt_regs *regs, u32 use, s64 result, u64 duration_ns)
{
	u64 first = argument_of(regs, 0), second = argument_of(regs, 1);
	u32 kind = use & ~SHAPE_MASK;

	switch (use & SHAPE_MASK) {
	case SHAPE_SEND:
		on_other_descriptor(USE_WRITE, first, result, duration_ns);
		on_other_descriptor(USE_READ, second, result, duration_ns);
		return;
	case SHAPE_COPY:
		on_other_descriptor(USE_READ, first, result, duration_ns);
		on_other_descriptor(USE_WRITE, argument_of(regs, 2), result, duration_ns);
		return;
	case SHAPE_SUBMIT:
		on_submit(argument_of(regs, 2), result);
		return;
	case SHAPE_PATH:
		on_path(kind, first, AT_FDCWD, result, duration_ns);
		return;
	case SHAPE_TWO_PATHS:
		on_path(kind, first, AT_FDCWD, result, duration_ns);
		on_path(kind | SECOND_PATH, second, AT_FDCWD, result, duration_ns);
		return;
	default:
		on_path(kind, second, first, result, duration_ns);
	}
	if ((use & SHAPE_MASK) == SHAPE_TWO_AT)
		on_path(kind | SECOND_PATH, argument_of(regs, 3), argument_of(regs, 2), result,
			duration_ns);
}

SEC("tp_btf/sys_exit")
UNDISTURBED(on_call)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	struct outcome outcome = { .result = ctx[1] };
	struct wire_slots *own = own_slots();
	struct task_struct *task;
	u64 number = system_call_left(regs);
	u32 use = use_of_call(number);

	if (!own)
		return 0;
	if (!use)
		return 0;
	task = current_task();
	if (is_compat(task)) {
		count(COUNT_USES_COMPAT);
		return 0;
	}
	outcome.duration_ns = duration_of((u32)bpf_get_current_pid_tgid(), number);
	if (!(use & SHAPE_MASK))
		on_descriptor(own, task, use, argument_of(regs, 0), &outcome);
	else
		on_shape(regs, use, outcome.result, outcome.duration_ns);
	return 0;
}

SEC("tp_btf/sys_enter")
UNDISTURBED(on_call_begins)
{
	u64 number = ctx[1];
	struct start *start;
	u32 tid;

	if (!use_of_call(number))
		return 0;
	tid = bpf_get_current_pid_tgid();
	start = start_of(tid);
	if (!start)
		return 0;
	start->tid = tid;
	start->system_call = number;
	start->time_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline s64 uring_result(u64 *ctx)
{
	if (settings.uring_result == URING_CQE)
		return READ((struct io_uring_cqe *)ctx[2], res);
	return (s32)ARGUMENT(ctx, 3);
}

SEC("tp_btf/io_uring_complete")
UNDISTURBED(on_uring_complete)
{
	struct io_kiocb *request = (struct io_kiocb *)ctx[1];
	struct outcome outcome = {};
	struct wire_slots *own;
	struct task_struct *task;
	struct wire_use *slot;
	struct file *file;
	u32 kind, zero = 0;

	if (!request)
		return 0;
	kind = settings.uring_uses[READ(request, opcode)];
	own = bpf_map_lookup_elem(&uring_slots, &zero);
	if (!kind || !own)
		return 0;
	task = uring_task(request);
	outcome.result = uring_result(ctx);
	file = kind == USE_OPEN ? file_of(task, outcome.result) : READ(request, file);
	if (!task || !file)
		return 0;
	slot = slot_of_file(own, file, task, ROOM_URING);
	if (kind != USE_OPEN) {
		charge(slot, kind, &outcome);
		return 0;
	}
	charge_open(slot, file, &outcome);
	if (settings.each_open)
		send_uring_open(task, file, &outcome);
	return 0;
}

static __always_inline int on_fault(struct address_space *mapping, u64 pages)
{
	struct task_struct *task = current_task();
	struct wire_use *use = entry_of(READ(mapping, host), task, ROOM_DIRTY);

	if (!use)
		return 0;
	atomic_add(&use->calls[USE_FAULT], 1);
	atomic_add(&use->fault_bytes, pages << settings.page_shift);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
UNDISTURBED(on_file_fault)
{
	return on_fault((struct address_space *)ctx[0], 1);
}

SEC("tp_btf/mm_filemap_map_pages")
UNDISTURBED(on_file_mapped)
{
	return on_fault((struct address_space *)ctx[0], ctx[2] - ctx[1] + 1);
}
