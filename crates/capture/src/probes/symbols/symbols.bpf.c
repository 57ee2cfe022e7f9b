// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Addresses of bio completion functions, and whether tracepoints have an SRCU of their own. User
 * space runs this once, before it loads the programs that compare with them: the kernel looks up a
 * name in a microsecond, and needs 50 ms to list all symbols.
 */
#include "kernel.bpf.h"
#include "wire.h"
#include <bpf/bpf_helpers.h>

SEC("syscall")
int find_symbols(struct wire_symbols *found)
{
	u64 address;

/* Via the stack: the verifier does not allow a helper to write to a program's argument. */
#define LOOK_UP(name) \
	address = 0;  \
	bpf_kallsyms_lookup_name(name, sizeof(name), 0, (void *)&address);
#define FIND_SYMBOL(id, symbol) \
	LOOK_UP(#symbol)        \
	found->end_io[id] = address;
#define FIND_ALIAS(id, symbol)          \
	if (!found->end_io[id]) {       \
		FIND_SYMBOL(id, symbol) \
	}
#define FIND_IN_MODULE(id, module, symbol) \
	LOOK_UP(#module ":" #symbol)       \
	if (address)                       \
		found->end_io[id] = address;
	END_IO_LIST(FIND_SYMBOL)
	END_IO_ALIASES(FIND_ALIAS)
	END_IO_MODULES(FIND_IN_MODULE)
	LOOK_UP("tracepoint_srcu")
	found->tracepoint_srcu = address;
#undef FIND_IN_MODULE
#undef FIND_ALIAS
#undef FIND_SYMBOL
#undef LOOK_UP
	return 0;
}
