// Threads that wait for one that writes. usage: chains mutex|timed|hops|pipe|socket FILE SECONDS
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 5
#define BYTES	4096

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static int file, ends[2], gives_up;
static time_t end;
static void *page;

static int goes_on(void)
{
	return time(NULL) < end;
}

static void name(const char *text)
{
	pthread_setname_np(pthread_self(), text);
}

static void __attribute__((noinline)) write_page(void)
{
	if (pwrite(file, page, BYTES, 0) != BYTES) {
		perror("pwrite");
		exit(1);
	}
}

static void *writer(void *unused)
{
	name("snapshot-writer");
	while (goes_on()) {
		pthread_mutex_lock(&first);
		write_page();
		pthread_mutex_unlock(&first);
		usleep(2000);
	}
	return unused;
}

// Like a JVM: it wakes up again and again to look whether the lock is free. So seldom that it hardly ever does at the
// moment when a watch ends, when it would not be asleep.
static void lock_with_timeouts(pthread_mutex_t *lock)
{
	struct timespec until;

	do {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 400000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	} while (pthread_mutex_timedlock(lock, &until));
}

static void __attribute__((noinline)) take(pthread_mutex_t *lock, pthread_mutex_t *inner)
{
	if (gives_up)
		lock_with_timeouts(lock);
	else
		pthread_mutex_lock(lock);
	if (inner) {
		pthread_mutex_lock(inner);
		pthread_mutex_unlock(inner);
	}
	pthread_mutex_unlock(lock);
	usleep(2000);
}

static void *relay(void *unused)
{
	name("relay");
	while (goes_on())
		take(&second, &first);
	return unused;
}

static void *worker(void *lock)
{
	name("worker");
	while (goes_on())
		take(lock, NULL);
	return NULL;
}

static void *feeder(void *unused)
{
	name("feeder");
	while (goes_on()) {
		write_page();
		if (write(ends[1], "x", 1) != 1)
			exit(1);
	}
	close(ends[1]);
	return unused;
}

static void *reader(void *unused)
{
	char byte;

	name("reader");
	while (read(ends[0], &byte, 1) == 1)
		;
	return unused;
}

// The two ends of a connection over the loopback: to read from, to write to.
static int connect_ends(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ends[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length) ||
	    connect(ends[1], (struct sockaddr *)&address, length))
		return -1;
	ends[0] = accept(listener, NULL, NULL);
	return ends[0] < 0 ? -1 : 0;
}

int main(int count, char **arguments)
{
	pthread_t threads[WORKERS + 2];
	int used = 0, is_socket, i;

	if (count != 4)
		return 2;
	file = open(arguments[2], O_RDWR | O_DIRECT);
	is_socket = !strcmp(arguments[1], "socket");
	if (file < 0 || (is_socket ? connect_ends(ends) : pipe(ends)) ||
	    posix_memalign(&page, BYTES, BYTES)) {
		perror(arguments[2]);
		return 1;
	}
	memset(page, 'x', BYTES);
	end = time(NULL) + atoi(arguments[3]);
	gives_up = !strcmp(arguments[1], "timed");
	if (is_socket || !strcmp(arguments[1], "pipe")) {
		pthread_create(&threads[used++], NULL, feeder, NULL);
		pthread_create(&threads[used++], NULL, reader, NULL);
	} else {
		int hops = !strcmp(arguments[1], "hops");

		pthread_create(&threads[used++], NULL, writer, NULL);
		usleep(20000);
		if (hops) {
			pthread_create(&threads[used++], NULL, relay, NULL);
			usleep(20000);
		}
		for (i = 0; i < WORKERS; i++)
			pthread_create(&threads[used++], NULL, worker, hops ? &second : &first);
	}
	for (i = 0; i < used; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
