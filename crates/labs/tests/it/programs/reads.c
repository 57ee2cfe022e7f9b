/*
 * Reads a device directly until it is ended. With a second argument the system call is made by code that
 * the program wrote itself, as a compiler at run time does.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK 4096

typedef ssize_t read_at(int, void *, size_t, off_t);

/* mov $17, %eax; mov %rcx, %r10; syscall; ret */
static const unsigned char code[] = { 0xb8, 17, 0, 0, 0, 0x49, 0x89, 0xca, 0x0f, 0x05, 0xc3 };

static read_at *written(void)
{
	void *place = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (place == MAP_FAILED)
		exit(2);
	memcpy(place, code, sizeof(code));
	return (read_at *)place;
}

int main(int count, char **arguments)
{
	read_at *read_at = count > 2 ? written() : pread;
	int disk = count > 1 ? open(arguments[1], O_RDONLY | O_DIRECT) : -1;
	void *block;

	if (disk < 0 || posix_memalign(&block, BLOCK, BLOCK))
		return 1;
	for (long at = 0;; at = (at + 1) % 1024) {
		if (read_at(disk, block, BLOCK, at * BLOCK) != BLOCK)
			return 1;
		usleep(1000);
	}
}
