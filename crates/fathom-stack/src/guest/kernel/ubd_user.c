
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
