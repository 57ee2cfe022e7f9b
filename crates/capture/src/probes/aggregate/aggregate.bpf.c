// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Exact counts without a watch, or where the program at the completion of requests does not count
 * itself (see settings.counts_requests).
 */
#include "totals.bpf.h"

SEC("tp_btf/block_rq_complete")
UNDISTURBED(count_completion)
{
	struct request *rq = request_argument(ctx);

	count_request(rq, device_of(request_disk(rq)), RQ_ARGUMENT(ctx, 1), RQ_ARGUMENT(ctx, 2),
		      bpf_ktime_get_ns());
	return 0;
}

/* Only bios without a request complete here: those of bio-based devices. */
SEC("tp_btf/block_bio_complete")
UNDISTURBED(count_bio_completion)
{
	struct bio *bio = (struct bio *)ctx[1];
	u32 device = device_of(bio_disk(bio));
	u32 bytes = bio->bi_iter.bi_size, operation = bio->bi_opf;
	struct wire_total *total;
	u64 began, now;

	if (!is_watched(device))
		return 0;
	total = total_of(device, operation);
	if (!total)
		return 0;
	total->requests += 1;
	total->bytes += bytes;
	total->errors += bio->bi_status != 0;
	if (bpf_core_field_exists(bio->issue_time_ns)) {
		began = bio->issue_time_ns;
		now = bpf_ktime_get_ns();
		if (began && began < now)
			count_latency(total, now - began);
	}
	return 0;
}
