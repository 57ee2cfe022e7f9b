/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Every difference between kernels that the BPF programs must handle. Each entry has one accessor,
 * names the commit that made it necessary, and checks the kernel's BTF, never its version.
 */
#ifndef IOWHY_COMPAT_H
#define IOWHY_COMPAT_H

#include "kernel.bpf.h"
#include "wire.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Of every object: helpers that read the kernel's memory are for GPL-compatible programs only. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PF_KTHREAD 0x00200000
#define PF_WORKERS 0x00004010 /* PF_USER_WORKER, PF_IO_WORKER */

/*
 * Set by user space from the kernel's BTF. Request events lost their first argument, the queue, in
 * a54895fa057c (5.11, backported to 5.10.137 but not by every vendor), bio events in 5.12.
 */
const volatile struct wire_settings settings SEC(".rodata.settings") = {};

/*
 * Reads one field through any address. From 6.2 on, bpf_rdonly_cast() asserts the type to the
 * verifier, and the read is a plain load; before, a helper copies the field, ten times slower.
 */
extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym __weak;

#define READ(pointer, field)                                                                      \
	({                                                                                        \
		typeof(pointer) read_from = (pointer);                                            \
		typeof(read_from->field) read_value;                                              \
		if (bpf_ksym_exists(bpf_rdonly_cast))                                             \
			read_value =                                                              \
				((typeof(read_from))bpf_rdonly_cast(                              \
					 read_from, bpf_core_type_id_kernel(typeof(*read_from)))) \
					->field;                                                  \
		else                                                                              \
			read_value = BPF_CORE_READ(read_from, field);                             \
		read_value;                                                                       \
	})

/*
 * The same for a pointer that is reached from a tracepoint's arguments, which the verifier allows
 * to be dereferenced directly. Kernels with the cast need a millisecond per such read, on each path
 * to it, to check whether the result is a trusted pointer.
 */
#define POINTER(pointer, field) \
	(bpf_ksym_exists(bpf_rdonly_cast) ? READ(pointer, field) : (pointer)->field)

/*
 * Adds to memory that others add to. Relaxed, so that every compiler makes the instruction that
 * kernels before 5.12 have, too: of __sync_fetch_and_add() clang 20 and later make one that also
 * fetches and orders, although nobody uses the value.
 */
#define atomic_add(pointer, value) ((void)__atomic_fetch_add(pointer, value, __ATOMIC_RELAXED))

/*
 * Converts a typed pointer to a scalar, for arithmetic or to pass it to a global function. The
 * verifier allows subtracting two pointers, and accepts the cast of address 0. It does not allow
 * adding them, which is what clang 17 and later make of the subtraction if they see it: so it is an
 * instruction that no compiler changes. Nothing else may calculate with a pointer.
 */
static __always_inline u64 number_of(const void *pointer)
{
	u64 number = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		u32 any = bpf_core_type_id_kernel(struct bio);
		u64 zero = (u64)bpf_rdonly_cast(NULL, any);

		number = (u64)bpf_rdonly_cast(pointer, any);
		asm volatile("%0 -= %1" : "+r"(number) : "r"(zero));
		return number;
	}
	bpf_probe_read_kernel(&number, sizeof(number), &pointer);
	return number;
}

/*
 * One argument of a tracepoint. Written as the load that it must become: the compiler would compute
 * the offset, and the verifier allows only constant ones.
 */
#define ARGUMENT(ctx, place)                                                                     \
	({                                                                                       \
		u64 value;                                                                       \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(value) : "r"(ctx), "i"((place)*8)); \
		value;                                                                           \
	})

/*
 * From 7.x on tracepoints run with preemption enabled. A program could be preempted in the middle:
 * it would miss the events of tasks that run on its CPU meanwhile, and share its per-CPU buffers
 * with them.
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline bool must_hold_cpu(void)
{
	return settings.preemptible && bpf_ksym_exists(bpf_preempt_disable);
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_costs);
} costs SEC(".maps");

#define TIMED_RUNS 256 /* one in so many runs is timed: reading the clock costs 25 ns each time */

static __always_inline struct wire_cost *cost_of(u32 program)
{
	u32 zero = 0;
	struct wire_costs *all = bpf_map_lookup_elem(&costs, &zero);

	if (!all)
		return NULL;
	/* Else the compiler adds the offset first, which older verifiers refuse. */
	barrier_var(all);
	return &all->of[program];
}

/*
 * Counts a run; the time if this one is timed, else 0. What reading the clock takes is no part of
 * the other runs: it is measured first, and the time begins so much later.
 */
static __always_inline u64 begin_run(struct wire_cost *cost)
{
	u64 first;

	if (!cost)
		return 0;
	cost->runs += 1;
	if (cost->runs & (TIMED_RUNS - 1))
		return 0;
	first = bpf_ktime_get_ns();
	return 2 * bpf_ktime_get_ns() - first;
}

static __always_inline void end_run(struct wire_cost *cost, u64 since)
{
	u64 now;

	if (!cost || !since)
		return;
	now = bpf_ktime_get_ns();
	cost->timed += 1;
	if (now > since)
		cost->ns += now - since;
}

/*
 * The head of a tracepoint program that runs with preemption disabled, and whose cost is measured;
 * its body follows.
 */
#define UNDISTURBED(name)                                    \
	int name(u64 *ctx);                                  \
	static __always_inline int body_of_##name(u64 *ctx); \
	int name(u64 *ctx)                                   \
	{                                                    \
		struct wire_cost *cost;                      \
		u64 since;                                   \
		int result;                                  \
                                                             \
		if (must_hold_cpu())                         \
			bpf_preempt_disable();               \
		cost = cost_of(PROGRAM_##name);              \
		since = begin_run(cost);                     \
		result = body_of_##name(ctx);                \
		end_run(cost, since);                        \
		if (must_hold_cpu())                         \
			bpf_preempt_enable();                \
		return result;                               \
	}                                                    \
	static __always_inline int body_of_##name(u64 *ctx)

/*
 * A task preempted at this point, after preemption is enabled again, leaves the program marked as
 * active: the kernel skips it on this CPU for all other tasks until that task is back (recursion
 * protection). A second program on the same tracepoint handles the events that the first one
 * missed. Its body, which follows, gets `again`, and must do nothing if the first one ran.
 */
#define TWICE(event, name)                                               \
	static __always_inline int both_of_##name(u64 *ctx, bool again); \
	SEC("tp_btf/" event)                                             \
	UNDISTURBED(name)                                                \
	{                                                                \
		return both_of_##name(ctx, false);                       \
	}                                                                \
	SEC("tp_btf/" event)                                             \
	UNDISTURBED(name##_again)                                        \
	{                                                                \
		return both_of_##name(ctx, true);                        \
	}                                                                \
	static __always_inline int both_of_##name(u64 *ctx, bool again)

/* The arguments of request events, starting with the request. */
#define RQ_ARGUMENT(ctx, place) \
	(settings.rq_events_have_queue ? ARGUMENT(ctx, (place) + 1) : ARGUMENT(ctx, place))

/* The arguments of bio events, starting with the bio. */
#define BIO_ARGUMENT(ctx, place) \
	(settings.bio_events_have_queue ? ARGUMENT(ctx, (place) + 1) : ARGUMENT(ctx, place))

/* The bit of a flag of a request or bio, by name. */
#define REQ_BIT(name) (1U << bpf_core_enum_value(enum req_flag_bits, name))

static __always_inline struct request *request_argument(u64 *ctx)
{
	return (struct request *)RQ_ARGUMENT(ctx, 0);
}

static __always_inline struct bio *bio_argument(u64 *ctx)
{
	return (struct bio *)BIO_ARGUMENT(ctx, 0);
}

/* rq->rq_disk became rq->q->disk: f3fa33acca9f, 5.17. */
static __always_inline struct gendisk *request_disk(struct request *rq)
{
	if (bpf_core_field_exists(rq->rq_disk))
		return POINTER(rq, rq_disk);
	return POINTER(POINTER(rq, q), disk);
}

static __always_inline u32 device_of(struct gendisk *disk)
{
	return (u32)READ(disk, major) << 20 | (u32)READ(disk, first_minor);
}

#define GENHD_FL_HIDDEN_5_10 0x400

/*
 * Whether the disk cannot be opened: one path of a multipath device, which is visible as another
 * disk. It has no device number. Before 0d02129e76ed, 5.11, a flag shows this, whose value was
 * different then.
 */
static __always_inline bool is_hidden(struct gendisk *disk)
{
	if (bpf_core_field_exists(disk->part0))
		return !READ(READ(disk, part0), bd_dev);
	return READ(disk, flags) & GENHD_FL_HIDDEN_5_10;
}

/*
 * The device of a queue. q->disk exists since d152c682f03c, 5.15; before, a queue has no pointer to
 * its disk, but its kobject's parent is the disk's.
 */
static __always_inline u32 queue_device(struct request_queue *q)
{
	struct kobject *parent;

	if (bpf_core_field_exists(q->disk))
		return device_of(q->disk);
	parent = READ(q, kobj.parent);
	if (!parent)
		return 0;
	return READ(
		(struct device *)(number_of(parent) - bpf_core_field_offset(struct device, kobj)),
		devt);
}

/* The bio of a merge: these events lost the queue and the request before it in e8a676d61c07, 5.11. */
static __always_inline struct bio *merged_bio_argument(u64 *ctx)
{
	return (struct bio *)(settings.merge_events_have_request ? ARGUMENT(ctx, 2)
								 : ARGUMENT(ctx, 0));
}

/* Offset of the alias list in a dentry: the union around it lost its name in 7.x. */
static __always_inline u64 alias_offset(void)
{
	struct dentry___unnamed *unnamed = NULL;

	if (bpf_core_field_exists(unnamed->d_alias))
		return bpf_core_field_offset(struct dentry___unnamed, d_alias);
	return bpf_core_field_offset(struct dentry, d_u.d_alias);
}

/*
 * The current task. bpf_get_current_task_btf(), whose result can be dereferenced: 3ca1032ab7ab,
 * 5.11.
 */
static __always_inline struct task_struct *current_task(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
		return bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}

/*
 * The user registers of a task in the kernel. bpf_task_pt_regs(): dd6e10fbd9fb, 5.15; before, they
 * are read at their location at the end of the kernel stack.
 */
static __always_inline struct pt_regs *user_registers(struct task_struct *task)
{
	/* BTF does not have the stack's size: 16 KiB, or a page if that is larger. */
	u32 stack_shift = settings.page_shift > 14 ? settings.page_shift : 14;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (struct pt_regs *)bpf_task_pt_regs(task);
	return (struct pt_regs *)(number_of(READ(task, stack)) + (1ULL << stack_shift) -
				  bpf_core_type_size(struct pt_regs));
}

/* bio->bi_disk became bio->bi_bdev: 309dca309fc3, 5.12. */
static __always_inline struct gendisk *bio_disk(struct bio *bio)
{
	if (bpf_core_field_exists(bio->bi_disk))
		return POINTER(bio, bi_disk);
	return POINTER(POINTER(bio, bi_bdev), bd_disk);
}

/*
 * Whether the flush machinery handles the request: it then completes twice, first its data, and
 * after the post-flush the whole request. Older kernels do not show this (a macro until 6.12).
 */
static __always_inline bool is_flush_sequence(struct request *rq)
{
	if (!bpf_core_enum_value_exists(enum rqf_flags, __RQF_FLUSH_SEQ))
		return false;
	return rq->rq_flags & (1U << bpf_core_enum_value(enum rqf_flags, __RQF_FLUSH_SEQ));
}

/* kn->parent became the RCU-protected kn->__parent: 6.15. */
static __always_inline struct kernfs_node *kernfs_parent(struct kernfs_node *kn)
{
	if (bpf_core_field_exists(kn->__parent))
		return READ(kn, __parent);
	return READ(kn, parent);
}

/*
 * The head page of a page's folio. From 7.2 on, the word is a mask if the size of struct page is a
 * power of two; decoded the old way it would be a wild pointer.
 */
static __always_inline struct page *head_page(struct page *page)
{
	u64 word;

	if (bpf_core_field_exists(page->compound_info)) {
		u64 size = bpf_core_type_size(struct page);

		word = number_of((void *)READ(page, compound_info));
		if (!(word & 1))
			return page;
		if ((size & (size - 1)) == 0)
			return (struct page *)(number_of(page) & word & ~1ULL);
		return (struct page *)(word - 1);
	}
	/* The verifier takes the word for a pointer, because it is in a union with a list. */
	word = number_of((void *)READ(page, compound_head));
	return word & 1 ? (struct page *)(word - 1) : page;
}

/* page->index became page->__folio_index: 6.14. Meaningful in head pages only. */
static __always_inline u64 page_index(struct page *head)
{
	if (bpf_core_field_exists(head->__folio_index))
		return READ(head, __folio_index);
	return READ(head, index);
}

/* The position of a page in its file, in pages. */
static __always_inline u64 page_position(struct page *page, struct page *head)
{
	u64 size = bpf_core_type_size(struct page);

	return page_index(head) + (number_of(page) - number_of(head)) / size;
}

/* Pages of a folio; on kernels without folios every page is one. */
static __always_inline u64 folio_pages(struct page *head)
{
	struct folio *folio = (struct folio *)head;
	u64 flags = 0;

	/*
	 * The flags are the first field on every kernel; their type has changed (6.18:
	 * memdesc_flags_t).
	 */
	bpf_probe_read_kernel(&flags, sizeof(flags), head);
	if (!(flags & (1ULL << bpf_core_enum_value(enum pageflags, PG_head))))
		return 1;
	if (bpf_core_field_exists(folio->_nr_pages))
		return READ(folio, _nr_pages);
	if (bpf_core_field_exists(folio->_folio_nr_pages))
		return READ(folio, _folio_nr_pages);
	return 1;
}

/* The page that is `bytes` after the beginning of `page`. */
static __always_inline u64 nth_page(struct page *page, u32 bytes)
{
	return number_of(page) +
	       (u64)(bytes >> settings.page_shift) * bpf_core_type_size(struct page);
}

static __always_inline u32 page_offset(u32 bytes)
{
	return bytes & ((1U << settings.page_shift) - 1);
}

/* Bytes from `offset` in `page` to the end of its folio. */
static __always_inline u64 folio_rest(struct page *page, u32 offset)
{
	struct page *head = head_page(page);
	u64 before = (number_of(page) - number_of(head)) / bpf_core_type_size(struct page);
	u64 pages = folio_pages(head);

	/* If the page is beyond its head's size, count the page itself. */
	if (pages <= before)
		return (1U << settings.page_shift) - offset;
	return ((pages - before) << settings.page_shift) - offset;
}

/* The number of the system call that a task is in; -1 in page faults and outside of calls. */
static __always_inline int system_call_of(struct pt_regs *regs)
{
	if (bpf_core_field_exists(regs->orig_ax))
		return (int)READ(regs, orig_ax);
	return READ(regs, syscallno);
}

/* The first argument of the system call that a task is in. */
static __always_inline u64 first_argument_of(struct pt_regs *regs)
{
	if (bpf_core_field_exists(regs->di))
		return READ(regs, di);
	return READ(regs, regs[0]);
}

/* The fourth argument of the system call that a task is in. */
static __always_inline u64 fourth_argument_of(struct pt_regs *regs)
{
	if (bpf_core_field_exists(regs->r10))
		return READ(regs, r10);
	return READ(regs, regs[3]);
}

/* The first four arguments of the system call that a task is in. */
static __always_inline void arguments_of(struct pt_regs *regs, u64 *arguments)
{
	if (bpf_core_field_exists(regs->di)) {
		arguments[0] = READ(regs, di);
		arguments[1] = READ(regs, si);
		arguments[2] = READ(regs, dx);
		arguments[3] = READ(regs, r10);
		return;
	}
	arguments[0] = READ(regs, regs[0]);
	arguments[1] = READ(regs, regs[1]);
	arguments[2] = READ(regs, regs[2]);
	arguments[3] = READ(regs, regs[3]);
}

/* The address that the program entered the kernel from. */
static __always_inline u64 instruction_of(struct pt_regs *regs)
{
	if (bpf_core_field_exists(regs->ip))
		return READ(regs, ip);
	return READ(regs, pc);
}

static __always_inline u64 frame_pointer_of(struct pt_regs *regs)
{
	if (bpf_core_field_exists(regs->bp))
		return READ(regs, bp);
	return READ(regs, regs[29]);
}

/* arm64's return address of the innermost function; 0 on CPUs that keep it on the stack. */
static __always_inline u64 link_register_of(struct pt_regs *regs)
{
	return bpf_core_field_exists(regs->ip) ? 0 : READ(regs, regs[30]);
}

/* The number of the system call that returns; `regs` is the tracepoint's own argument. */
static __always_inline u32 system_call_left(struct pt_regs *regs)
{
	return bpf_core_field_exists(regs->orig_ax) ? regs->orig_ax : regs->syscallno;
}

/*
 * An argument of that call; `place` counts from 0 and is a constant. On arm64 the first register
 * holds the result, and the first argument is saved separately.
 */
static __always_inline u64 argument_of(struct pt_regs *regs, u32 place)
{
	if (!bpf_core_field_exists(regs->di))
		return place == 0 ? regs->orig_x0 : regs->regs[place];
	switch (place) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	default:
		return regs->r10;
	}
}

/* Whether the running task's system calls have the numbers of 32-bit programs. */
static __always_inline bool is_compat(struct task_struct *task)
{
	/* TS_COMPAT of x86, TIF_32BIT of arm64. */
	if (bpf_core_field_exists(task->thread_info.status))
		return READ(task, thread_info.status) & 2;
	return READ(task, thread_info.flags) & (1UL << 22);
}

/* req->task became req->tctx->task: b6f58a3f4aa8, 6.13. */
static __always_inline struct task_struct *uring_task(struct io_kiocb *request)
{
	if (bpf_core_field_exists(request->task))
		return READ(request, task);
	return READ(READ(request, tctx), task);
}

/*
 * The task that submitted a request which an io_uring worker executes: workers were kernel threads
 * before 3bfe6106693b, 5.12, and a polling one only has the ring's task. NULL if workers are
 * threads of the program.
 */
static __always_inline struct task_struct *uring_submitter(struct io_kiocb *request)
{
	struct io_ring_ctx *ring = NULL;
	struct task_struct *task;

	if (!bpf_core_field_exists(ring->sqo_task))
		return NULL;
	task = uring_task(request);
	return READ(task, flags) & PF_KTHREAD ? READ(READ(request, ctx), sqo_task) : task;
}

/* Whether a task is running. task->on_cpu was an int and became a byte in 7.x; it is 0 or 1. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	u64 place = number_of(task) + bpf_core_field_offset(struct task_struct, on_cpu);
	u8 lowest = 0;

	bpf_probe_read_kernel(&lowest, sizeof(lowest), (void *)place);
	return lowest;
}

/*
 * The total run queue time of a task that is being switched out, or has been; 0 without
 * CONFIG_SCHED_INFO.
 */
static __always_inline u64 cpu_wait_of(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return 0;
	return READ(task, sched_info.run_delay);
}

/* task->state became task->__state: 2f064a59a11f, 5.14. */
static __always_inline u32 task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return READ(task, __state);
	return READ(task, state);
}

/*
 * The state of a task that is being switched out; 0 if it does not sleep. A task that is woken at
 * that moment has its state changed already, so sched_switch passes the state: 9c2136be0878, 5.19,
 * backported.
 */
static __always_inline u32 state_of_sleep(u64 *ctx, struct task_struct *task)
{
	u32 state = task_state(task);

	if (state && settings.switch_has_state)
		return ARGUMENT(ctx, 3);
	return state;
}

#endif
