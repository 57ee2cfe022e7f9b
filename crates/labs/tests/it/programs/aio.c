// Writes past the page cache, one write at a time, and waits for each in io_getevents(2).
// usage: aio FILE SECONDS LIMIT_MS   (0: without a time limit)
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BYTES 4096

int main(int count, char **arguments)
{
	aio_context_t context = 0;
	struct timespec limit;
	struct io_event event;
	void *page;
	time_t end;
	int file, milliseconds;

	if (count != 4)
		return 2;
	file = open(arguments[1], O_RDWR | O_DIRECT);
	if (file < 0 || syscall(SYS_io_setup, 8, &context) || posix_memalign(&page, BYTES, BYTES)) {
		perror(arguments[1]);
		return 1;
	}
	memset(page, 'x', BYTES);
	end = time(NULL) + atoi(arguments[2]);
	milliseconds = atoi(arguments[3]);
	limit.tv_sec = milliseconds / 1000;
	limit.tv_nsec = milliseconds % 1000 * 1000000L;
	while (time(NULL) < end) {
		struct iocb block = {
			.aio_lio_opcode = IOCB_CMD_PWRITE,
			.aio_fildes = file,
			.aio_buf = (unsigned long)page,
			.aio_nbytes = BYTES,
		};
		struct iocb *blocks[] = {&block};

		if (syscall(SYS_io_submit, context, 1, blocks) != 1)
			return 1;
		while (syscall(SYS_io_getevents, context, 1, 1, &event,
			       milliseconds ? &limit : NULL) == 0)
			;
	}
	return 0;
}
