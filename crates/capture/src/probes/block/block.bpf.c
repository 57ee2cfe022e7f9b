// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Requests: each block tracepoint stamps the request in flight, and the completion sends one
 * record.
 *
 * A request in flight is stored under the address of its first bio, from queueing to completion:
 * the bio stays the head of its request, so that the state need not move when the request is
 * allocated. Requests without a bio (of the flush machinery, passthrough commands of drivers) are
 * stored under their own address.
 *
 * The bios of a merged request are walked in request_bios.bpf.h and request_parts.bpf.h; files are
 * found in file_of_bio.bpf.h, owners in owners.bpf.h.
 */
#include "request_bios.bpf.h"
#include "file_of_bio.bpf.h"
#include "submitters.bpf.h"
#include "skipped_requests.bpf.h"
#include "totals.bpf.h"
#include "upper_requests.bpf.h"

/* BLK_STS_AGAIN, a macro in the kernel: 12 since it was added (03a07c92a9ed, 4.13). */
#define STATUS_AGAIN 12

static __always_inline void note_task(struct wire_request *r, struct task_struct *task)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 flags = READ(task, flags);

	r->tgid = pid_tgid >> 32;
	r->tid = pid_tgid;
	r->system_call = -1;
	if (flags & PF_KTHREAD) {
		r->flags |= REQUEST_KERNEL_THREAD;
	} else if (!(flags & PF_WORKERS)) {
		r->system_call = system_call_of(user_registers(task));
		if (r->system_call < 0)
			r->flags |= REQUEST_FAULT;
	}
	see_current(task);
}

/* Whether the first program handled this bio; clears the flag. */
static __always_inline bool is_noted(u64 key)
{
	struct wire_request *r = find_request(key);

	if (!r || !(r->flags & REQUEST_NOTED))
		return false;
	r->flags &= ~REQUEST_NOTED;
	return true;
}

/*
 * For whom a kernel thread queued a bio. A global function, which the verifier checks once and not
 * for each way in which the bio's file was found.
 */
__noinline int note_origin(u64 key, u64 waiter, u64 iocb)
{
	struct wire_request *r = find_request(key);

	if (!r)
		return 0;
	note_waiter(r, (struct task_struct *)waiter);
	note_uring(r, (struct kiocb *)iocb);
	return 0;
}

TWICE("block_bio_queue", on_queue)
{
	struct wire_thinning *thin = thinning_now();
	u32 device, weight = thin ? weight_now(thin->one_in) : 0;
	struct bio *bio = bio_argument(ctx);
	struct direct direct = {};
	struct wire_request *r;

	device = device_of(bio_disk(bio));
	if (!weight && rests_on(thin, device)) {
		note_resting();
		return 0;
	}
	if (!is_watched(device) || (again && is_noted(number_of(bio))))
		return 0;
	if (thin && !weight) {
		skip(bio, device);
		return 0;
	}
	forget_skipped(number_of(bio));
	r = add_request(number_of(bio));
	if (!r)
		return 0;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = WIRE_REQUEST;
	r->device = device;
	r->cpu = bpf_get_smp_processor_id();
	r->id = next_id(r->cpu);
	r->weight = weight;
	r->sector = bio->bi_iter.bi_sector;
	r->bytes = r->part.bytes = bio->bi_iter.bi_size;
	r->operation = bio->bi_opf;
	r->bios = 1;
	r->part.offset = OFFSET_UNKNOWN;
	note_task(r, current_task());
	note_cgroup(bio, r);
	r->part.found =
		has_pages(r->operation) && r->bytes ? find_file(bio, r, &direct) : FOUND_NO_DATA;
	if (r->flags & REQUEST_KERNEL_THREAD)
		note_origin(number_of(bio), number_of(direct.waiter), number_of(direct.iocb));
	/* Not only of kernel threads: a loop device may queue from the thread that uses it. */
	note_parent(r, direct.iocb);
	note_mapped(r, bio);
	if (!again && must_hold_cpu())
		r->flags |= REQUEST_NOTED;
	/* Stamped last: the time spent here is iowhy's, not the disk's. */
	r->queue_ns = bpf_ktime_get_ns();
	if (take_stack(ctx, r, (u64)r->tgid << 32 | r->tid))
		r->queue_ns = bpf_ktime_get_ns();
	return 0;
}

TWICE("block_split", on_split)
{
	/* The new bio is the front half; the old one continues as the rest, under its own key. */
	struct bio *half = bio_argument(ctx);
	struct wire_request *r = find_request(number_of(half->bi_private));
	struct wire_request *front;

	/* The device mapper resubmits the rest of a bio to itself under its own address. */
	if (!r || find_request(number_of(half)))
		return 0;
	front = add_request(number_of(half));
	if (!front)
		return 0;
	*front = *r;
	front->id = next_id(bpf_get_smp_processor_id());
	front->stack_weight = 0;
	front->stack = 0;
	front->bytes = half->bi_iter.bi_size;
	front->part.bytes = front->bytes;
	if (front->bytes > r->bytes)
		return 0;
	r->sector += front->bytes >> 9;
	r->bytes -= front->bytes;
	r->part.bytes -= front->bytes;
	if (r->part.offset != OFFSET_UNKNOWN)
		r->part.offset += front->bytes;
	return 0;
}

TWICE("block_getrq", on_get)
{
	u64 key = number_of(bio_argument(ctx));
	struct wire_request *r = may_be_tracked(key) ? find_request(key) : NULL;

	if (r && !(again && r->get_ns))
		r->get_ns = bpf_ktime_get_ns();
	return 0;
}

TWICE("block_rq_insert", on_insert)
{
	u64 key = key_of(request_argument(ctx));
	struct wire_request *r = may_be_tracked(key) ? find_request(key) : NULL;

	if (r && !r->insert_ns)
		r->insert_ns = bpf_ktime_get_ns();
	return 0;
}

TWICE("block_rq_issue", on_issue)
{
	struct request *rq = request_argument(ctx);
	u64 key = key_of(rq), now;
	bool is_tracked = may_be_tracked(key);
	struct gendisk *disk = request_disk(rq);
	u32 device = device_of(disk);
	struct wire_request *r;

	if (!is_tracked && rests_on(thinning_now(), device) && READ(rq, bio))
		return 0;
	now = bpf_ktime_get_ns();
	if (issue_skipped(key, now))
		return 0;
	r = is_tracked ? find_request(key) : NULL;
	if (again && r && r->issue_ns && r->device == device)
		return 0;
	if (!r && is_skipped(rq, now))
		return 0;
	if (r && is_left_over(r, rq, device)) {
		count(COUNT_END_MISSED);
		remove_request(key_of(rq));
		r = NULL;
	} else if (r && is_handed_on(r, disk, device)) {
		hand_on(key_of(rq), device, next_id(bpf_get_smp_processor_id()));
		r = pending_request(rq);
	}
	if (!r) {
		if (!is_watched(device))
			return 0;
		r = begin_late(rq, device, now);
		if (!r)
			return 0;
	}
	r->issue_ns = now;
	/* While requests are thinned, the kernel's own stamp has to do. */
	if (!r->get_ns && r->weight > 1 && READ(rq, start_time_ns) >= r->queue_ns)
		r->get_ns = READ(rq, start_time_ns);
	adopt_request(r, rq);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
UNDISTURBED(on_requeue)
{
	struct wire_request *r = pending_request(request_argument(ctx));

	if (r)
		r->requeues += 1;
	return 0;
}

TWICE("block_rq_complete", on_complete)
{
	struct request *rq = request_argument(ctx);
	int status = RQ_ARGUMENT(ctx, 1);
	u32 done = RQ_ARGUMENT(ctx, 2);
	u32 device = device_of(request_disk(rq));
	u64 key = key_of(rq), now = bpf_ktime_get_ns();
	struct wire_request *r;

	if (settings.counts_requests && !again)
		count_request(rq, device, status, done, now);
	if (ends_unseen(rq, device, done, now) || end_fast_skipped(rq, done, now))
		return 0;
	r = may_be_tracked(key) ? find_request(key) : NULL;
	/*
	 * If the first one freed the slot, the request has completed; if it kept it, only in part.
	 */
	if (again && (!r || (POINTER(rq, bio) && done < rq->__data_len)))
		return 0;
	if (!r) {
		/*
		 * The second completion of a flushed request whose first one was taken for the
		 * whole request.
		 */
		if (!done && POINTER(rq, bio))
			return 0;
		if (is_skipped(rq, now)) {
			/* Until then it is a part. */
			if (done >= rq->__data_len)
				record_skipped(rq, device, status, now);
			return 0;
		}
		if (!is_watched(device)) {
			note_ended(0, now);
			if (is_any_handed_on())
				end_above(number_of(POINTER(rq, bio)), done, status, now);
			return 0;
		}
		r = begin_late(rq, device, now);
		if (!r)
			return 0;
	}
	complete_request(r, rq, status, done, now);
	return 0;
}

/* Only bios without a request complete here: those of bio-based devices. */
TWICE("block_bio_complete", on_bio_complete)
{
	struct bio *bio = (struct bio *)ctx[1];
	u64 key = number_of(bio);
	struct wire_request *r = find_request(key);

	if (!r) {
		forget_skipped(key);
		return 0;
	}
	/*
	 * A bio with REQ_NOWAIT for which there is no tag: io_uring resubmits it from a thread that
	 * may block. It never became a request, and nothing failed.
	 */
	if (bio->bi_status == STATUS_AGAIN && !r->get_ns) {
		count(COUNT_RETRIED);
		remove_request(key);
		return 0;
	}
	r->complete_ns = bpf_ktime_get_ns();
	r->status = bio->bi_status;
	r->flags |= REQUEST_BIO_BASED;
	finish(r, key);
	return 0;
}
