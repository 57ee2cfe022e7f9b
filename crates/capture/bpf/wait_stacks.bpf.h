/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Stacks of threads that go to sleep, rate-limited: the stack is the largest cost of a wait. */
#ifndef IOWHY_WAIT_STACKS_H
#define IOWHY_WAIT_STACKS_H

#include "copied_stacks.bpf.h"

/* The kernel keeps one stack per hash; on a collision the later stack goes to the other map. */
#define STACK_MAP(name, most, frames)                       \
	struct {                                            \
		__uint(type, BPF_MAP_TYPE_STACK_TRACE);     \
		__uint(max_entries, most);                  \
		__uint(key_size, sizeof(u32));              \
		__uint(value_size, (frames) * sizeof(u64)); \
	} name SEC(".maps")

STACK_MAP(wait_stacks, WIRE_WAIT_STACKS, WIRE_WAIT_FRAMES);
STACK_MAP(wait_stacks_2, WIRE_WAIT_STACKS, WIRE_WAIT_FRAMES);
STACK_MAP(wait_user_stacks, WIRE_USER_STACKS, WIRE_USER_FRAMES);

/* Stacks and chains of this CPU in the current tenth of a second. */
struct allowance {
	u64 window_ns;
	u64 taken;
};

enum allowance_for {
	FOR_STACKS,
	FOR_USER_STACKS,
	FOR_CHAINS,
	ALLOWANCES,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ALLOWANCES);
	__type(key, u32);
	__type(value, struct allowance);
} allowances SEC(".maps");

#define TENTH_NS 100000000ULL

/* Takes one unit of a rate limit; returns false if none is left. */
static __always_inline bool is_allowed(u32 what, u32 per_second, u64 now)
{
	struct allowance *allowance = bpf_map_lookup_elem(&allowances, &what);

	if (!allowance)
		return false;
	if (now - allowance->window_ns >= TENTH_NS) {
		allowance->window_ns = now;
		allowance->taken = 0;
	}
	if (allowance->taken >= per_second / 10)
		return false;
	allowance->taken += 1;
	return true;
}

static __always_inline int take_wait_stack(void *ctx, u64 now)
{
	int stack;

	if (!is_allowed(FOR_STACKS, settings.wait_stacks_per_second, now))
		return -1;
	stack = bpf_get_stackid(ctx, &wait_stacks, 0);
	if (stack >= 0)
		return stack;
	stack = bpf_get_stackid(ctx, &wait_stacks_2, 0);
	if (stack >= 0)
		return stack + WIRE_WAIT_STACKS;
	count(COUNT_WAIT_STACKS);
	return stack;
}

/*
 * The user stack of the current task, which sleeps from `now` on; on a hash collision it is dropped.
 * If its process keeps no frame pointers, the stack is copied, too: of threads whose last wait was
 * long first.
 */
static __always_inline int take_user_stack(void *ctx, u64 now, struct pt_regs *regs,
					   struct wire_thread *thread)
{
	struct wire_copied_process *process;
	int stack;

	if (!is_allowed(FOR_USER_STACKS, settings.wait_user_stacks_per_second, now))
		return -1;
	stack = bpf_get_stackid(ctx, &wait_user_stacks, BPF_F_USER_STACK);
	if (stack < 0)
		count(COUNT_WAIT_STACKS);
	process = copied_process(bpf_get_current_pid_tgid() >> 32);
	if (process && may_copy(thread && thread->has_waited_long))
		copy_stack(number_of(regs), now, 0, process->is_deep);
	return stack;
}

#endif
