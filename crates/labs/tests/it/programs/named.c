/*
 * Reads blocks of a device directly, by functions that are called like nothing else. The one that asks the
 * kernel is not to be found by frame pointers, since the C library keeps none where it does so: the one that
 * called it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK  4096
#define BLOCKS 1500

static __attribute__((noinline)) int read_one(int disk, void *block, long number)
{
	ssize_t done = pread(disk, block, BLOCK, number * BLOCK);

	return done == BLOCK ? 0 : 1;
}

static __attribute__((noinline)) int reads_for_the_lab(int disk, void *block)
{
	int failed = 0;

	for (long number = 0; number < BLOCKS; number++) {
		failed += read_one(disk, block, number);
		usleep(1000);
	}
	return failed;
}

int main(int count, char **arguments)
{
	int disk = count > 1 ? open(arguments[1], O_RDONLY | O_DIRECT) : -1;
	void *block;

	if (disk < 0 || posix_memalign(&block, BLOCK, BLOCK))
		return 2;
	return reads_for_the_lab(disk, block) ? 1 : 0;
}
