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
	__type(value, u32);
} copied_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_copy_tokens);
} copy_tokens SEC(".maps");

/*
 * Takes a token, unless none is left for this process. Two CPUs may take the last one: the next
 * grant makes up for it.
 */
static __always_inline bool may_copy(u32 tgid, bool is_first)
{
	u32 zero = 0;
	struct wire_copy_tokens *tokens = bpf_map_lookup_elem(&copy_tokens, &zero);
	int kept;

	if (!tokens)
		return false;
	kept = is_first ? 0 : tokens->reserved;
	if (tokens->left <= kept || !bpf_map_lookup_elem(&copied_processes, &tgid))
		return false;
	__sync_fetch_and_add(&tokens->left, -1);
	return true;
}

/*
 * Copies the current task's stack from the chunk of its stack pointer on, as far as its pages are in
 * memory: nothing here may sleep.
 */
static __noinline int copy_stack(struct pt_regs *regs, u64 now, u32 sample)
{
	struct wire_copied_stack *copy = bpf_ringbuf_reserve(&ring, sizeof(*copy), 0);
	u64 base, pid_tgid = bpf_get_current_pid_tgid();
	int chunk;

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
	copy->padding = 0;
	copy->bytes = 0;
	base = copy->stack_pointer & ~(WIRE_COPY_CHUNK - 1ULL);
	copy->base = base;
#pragma unroll
	for (chunk = 0; chunk < WIRE_COPY_CHUNKS; chunk++) {
		if (bpf_probe_read_user(copy->stack + chunk * WIRE_COPY_CHUNK, WIRE_COPY_CHUNK,
					(void *)(base + chunk * WIRE_COPY_CHUNK)))
			break;
		copy->bytes = (chunk + 1) * WIRE_COPY_CHUNK;
	}
	bpf_ringbuf_submit(copy, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
