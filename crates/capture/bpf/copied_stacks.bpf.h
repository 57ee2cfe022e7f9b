/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Stacks of programs without frame pointers: registers and stack are copied, and user space unwinds
 * them. User space says which processes need it, and how many stacks may be copied.
 *
 * What does not belong here: walks along frame pointers (see submitters.bpf.h, wait_stacks.bpf.h).
 */
#ifndef IOWHY_COPIED_STACKS_H
#define IOWHY_COPIED_STACKS_H

#include "emit.bpf.h"

/* Processes of which a walk along frame pointers ended early. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIRE_COPIED_PROCESSES);
	__type(key, u32);
	__type(value, struct wire_copied_process);
} copied_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_copy_tokens);
} copy_tokens SEC(".maps");

/* NULL if the process keeps frame pointers, as far as is known. */
static __always_inline struct wire_copied_process *copied_process(u32 tgid)
{
	return bpf_map_lookup_elem(&copied_processes, &tgid);
}

/*
 * Takes a token, if one is left. Two CPUs may take the last one: the next grant makes up for it.
 */
static __always_inline bool may_copy(bool is_first)
{
	u32 zero = 0;
	struct wire_copy_tokens *tokens = bpf_map_lookup_elem(&copy_tokens, &zero);

	if (!tokens || tokens->left <= (is_first ? 0 : tokens->reserved))
		return false;
	atomic_add(&tokens->left, -1);
	return true;
}

/*
 * Leaves a request without a stack to the next one of its process, unless there were too many, or
 * the stack of each request is wanted, complete or not.
 */
static __always_inline bool leave_out(struct wire_copied_process *process, u32 weight)
{
	if (process->left_out >= WIRE_MOST_LEFT_OUT ||
	    settings.stacks_per_second >= WIRE_EACH_STACK)
		return false;
	atomic_add(&process->left_out, 1);
	atomic_add(&process->stack_weight, weight);
	return true;
}

/* The requests that were left out until now. */
static __always_inline u32 take_left_out(struct wire_copied_process *process)
{
	u32 weight = process->stack_weight;

	atomic_add(&process->stack_weight, -weight);
	process->left_out = 0;
	return weight;
}

/*
 * Copies the current task's stack from the chunk of its stack pointer on, as far as its pages are in
 * memory: nothing here may sleep.
 */
__noinline int copy_stack(u64 registers, u64 now, u32 sample, u32 is_deep)
{
	struct pt_regs *regs = (struct pt_regs *)registers;
	u64 base, pid_tgid = bpf_get_current_pid_tgid(), begun = bpf_ktime_get_ns();
	struct wire_copied_stack *copy = bpf_ringbuf_reserve(&ring, sizeof(*copy), 0);
	int chunk, most = is_deep ? WIRE_DEEP_CHUNKS : WIRE_COPY_CHUNKS;

	if (!copy) {
		count(COUNT_RING_FULL_DETAIL);
		return 0;
	}
	copy->kind = WIRE_COPIED_STACK;
	copy->sample = sample;
	copy->tgid = pid_tgid >> 32;
	copy->tid = pid_tgid;
	copy->start_ns = now;
	copy->instruction = instruction_of(regs);
	copy->stack_pointer = READ(regs, sp);
	copy->frame_pointer = frame_pointer_of(regs);
	copy->link = link_register_of(regs);
	copy->bytes = 0;
	base = copy->stack_pointer & ~(WIRE_COPY_CHUNK - 1ULL);
	copy->base = base;
	for (chunk = 0; chunk < WIRE_DEEP_CHUNKS; chunk++) {
		if (chunk >= most)
			break;
		if (bpf_probe_read_user(copy->stack + chunk * WIRE_COPY_CHUNK, WIRE_COPY_CHUNK,
					(void *)(base + chunk * WIRE_COPY_CHUNK)))
			break;
		copy->bytes = (chunk + 1) * WIRE_COPY_CHUNK;
	}
	copy->took_ns = bpf_ktime_get_ns() - begun;
	bpf_ringbuf_submit(copy, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
