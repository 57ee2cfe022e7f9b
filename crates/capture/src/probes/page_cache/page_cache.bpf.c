// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Counts additions to the page cache and removals from it. The kernel counts neither: of removals
 * it counts what reclaim takes, not truncation and deletion. This runs for each folio, so it is
 * loaded only on request.
 */
#include "compat.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_page_cache);
} page_cache SEC(".maps");

static __always_inline struct wire_page_cache *own_counts(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&page_cache, &key);
}

/* Both events have one argument: the folio, before 5.16 its first page. */
SEC("tp_btf/mm_filemap_add_to_page_cache")
UNDISTURBED(on_page_added)
{
	struct wire_page_cache *counts = own_counts();

	if (counts)
		counts->added_bytes += folio_pages((struct page *)ctx[0]) << settings.page_shift;
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
UNDISTURBED(on_page_removed)
{
	struct wire_page_cache *counts = own_counts();

	if (counts)
		counts->removed_bytes += folio_pages((struct page *)ctx[0]) << settings.page_shift;
	return 0;
}
