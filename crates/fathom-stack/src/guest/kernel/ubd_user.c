

/*
 * Fathom: transfers all pieces at once; 0 or an errno. What lies behind the end of the image reads as zeros.
 * An image that refuses direct I/O of this alignment is used through the host's cache from then on.
 */
#include <fcntl.h>
#include <sys/uio.h>

int fathom_transfer(int fd, int write, void *vector, int count, unsigned long long offset)
{
	struct iovec *piece = vector;
	ssize_t done;
	int flags;

	while (count > 0) {
		done = write ? pwritev(fd, piece, count, offset) : preadv(fd, piece, count, offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EINVAL) {
			flags = fcntl(fd, F_GETFL);
			if (flags >= 0 && (flags & O_DIRECT) && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0)
				continue;
			errno = EINVAL;
		}
		if (done < 0)
			return errno;
		if (done == 0) {
			if (write)
				return EIO;
			memset(piece->iov_base, 0, piece->iov_len);
			done = piece->iov_len;
		}
		offset += done;
		while (count > 0 && (size_t) done >= piece->iov_len) {
			done -= piece->iov_len;
			piece++;
			count--;
		}
		if (count > 0) {
			piece->iov_base = (char *) piece->iov_base + done;
			piece->iov_len -= done;
		}
	}
	return 0;
}

/* The host must not cache what the guest caches already. */
void fathom_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_DIRECT);
}

/* Whether a read of a descriptor would give something now. */
#include <poll.h>

int fathom_readable(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };

	return poll(&one, 1, 0) > 0;
}

/*
 * Several operations at a time: the host's asynchronous I/O, as its loop device uses it. The system calls are bare, because
 * the C library has none for them.
 */
#include <linux/aio_abi.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>

/* More than both disks' queues hold. */
#define FATHOM_DEPTH 256

static aio_context_t fathom_context;
static int fathom_event = -1;

/* Whether operations can be given to the host. */
int fathom_start(void)
{
	if (syscall(SYS_io_setup, FATHOM_DEPTH, &fathom_context) != 0)
		return 0;
	fathom_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return fathom_event >= 0;
}

/* Whether the operation was given to the host; `what` is 0 for a read, 1 for a write, FATHOM_FLUSH. */
int fathom_submit(void *owner, int fd, int what, void *vector, int count, unsigned long long offset)
{
	struct iocb block = {
		.aio_data = (unsigned long) owner,
		.aio_lio_opcode = what == FATHOM_FLUSH ? IOCB_CMD_FDSYNC : what ? IOCB_CMD_PWRITEV : IOCB_CMD_PREADV,
		.aio_fildes = fd,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = fathom_event,
	};
	struct iocb *one = &block;

	if (what != FATHOM_FLUSH) {
		block.aio_buf = (unsigned long) vector;
		block.aio_nbytes = count;
		block.aio_offset = offset;
	}
	return syscall(SYS_io_submit, fathom_context, 1, &one) == 1;
}

/* Ends that were told since the last call; none is waited for. */
int fathom_ended(struct fathom_end *ends, int most)
{
	struct io_event events[16];
	struct timespec now = { 0, 0 };
	int i, n;

	if (most > 16)
		most = 16;
	n = syscall(SYS_io_getevents, fathom_context, 0, most, events, &now);
	for (i = 0; i < n; i++) {
		ends[i].owner = (void *) (unsigned long) events[i].data;
		ends[i].result = events[i].res;
	}
	return n > 0 ? n : 0;
}

/* Until a request comes or an operation ends. */
void fathom_wait(int requests)
{
	struct pollfd both[2] = {
		{ .fd = requests, .events = POLLIN },
		{ .fd = fathom_event, .events = POLLIN },
	};
	unsigned long long told;

	/* What was told is read before the ends are asked for: one that comes in between is told again. */
	if (poll(both, 2, -1) > 0 && (both[1].revents & POLLIN) && read(fathom_event, &told, sizeof(told)) < 0)
		return;
}
