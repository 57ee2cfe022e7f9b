/* Opens a file by io_uring twenty times a second, until its standard input ends. */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *map(int ring, size_t bytes, off_t what)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
}

int main(int argc, char **argv)
{
	struct io_uring_params params;
	struct io_uring_cqe *cqes;
	struct io_uring_sqe *sqe;
	struct pollfd input = { .fd = 0 };
	unsigned *tail, *array, *head;
	char *submission, *completion;
	int ring;

	memset(&params, 0, sizeof(params));
	ring = argc > 1 ? syscall(__NR_io_uring_setup, 4, &params) : -1;
	if (ring < 0)
		return 77;
	submission = map(ring, params.sq_off.array + params.sq_entries * sizeof(unsigned),
			 IORING_OFF_SQ_RING);
	completion = map(ring, params.cq_off.cqes + params.cq_entries * sizeof(*cqes),
			 IORING_OFF_CQ_RING);
	sqe = (void *)map(ring, params.sq_entries * sizeof(*sqe), IORING_OFF_SQES);
	tail = (void *)(submission + params.sq_off.tail);
	array = (void *)(submission + params.sq_off.array);
	head = (void *)(completion + params.cq_off.head);
	cqes = (void *)(completion + params.cq_off.cqes);
	while (poll(&input, 1, 50) == 0) {
		unsigned at = *tail & (params.sq_entries - 1);
		int file;

		memset(&sqe[at], 0, sizeof(*sqe));
		sqe[at].opcode = IORING_OP_OPENAT;
		sqe[at].fd = AT_FDCWD;
		sqe[at].addr = (uintptr_t)argv[1];
		sqe[at].open_flags = O_RDONLY;
		array[at] = at;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		if (syscall(__NR_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			return 1;
		file = cqes[*head & (params.cq_entries - 1)].res;
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
		if (file < 0)
			return 1;
		close(file);
	}
	return 0;
}
