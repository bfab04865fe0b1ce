/*
 * Fathom: one request of the block layer is one operation on the image, a flush reaches it, and requests do not wait for
 * each other.
 *
 * As it comes, the driver's thread handles a request piece by piece, so a request of 128 KiB becomes 32 writes of 4 KiB,
 * and a flush, which has no pieces, becomes nothing at all; and it handles one request at a time.
 *
 * This thread is no task of the kernel's: no locks, no printk, no memory of the kernel's allocators here.
 */
static struct iovec fathom_pieces[MAX_SG]; /* one thread, and its stack is a page */

static void fathom_gather(struct io_thread_req *req)
{
	int i;

	for (i = 0; i < req->desc_cnt; i++) {
		fathom_pieces[i].iov_base = (void *) req->io_desc[i].buffer;
		fathom_pieces[i].iov_len = req->io_desc[i].length;
	}
}

/* A request that is one operation. Others have one piece; a copy-on-write image has its own ways. */
static int fathom_is_plain(struct io_thread_req *req)
{
	enum req_op op = req_op(req->req);

	return op == REQ_OP_FLUSH ||
	       ((op == REQ_OP_READ || op == REQ_OP_WRITE) && req->desc_cnt >= 1 && !req->io_desc[0].sector_mask &&
		req->io_desc[0].cow_offset == -1 && req->fds[0] == req->fds[1]);
}

/* Waits for the operation. */
static void fathom_complete(struct io_thread_req *req)
{
	int i, problem;

	if (req_op(req->req) == REQ_OP_FLUSH) {
		do_io(req, NULL);
	} else if (fathom_is_plain(req)) {
		fathom_gather(req);
		problem = fathom_transfer(req->fds[0], req_op(req->req) == REQ_OP_WRITE, fathom_pieces, req->desc_cnt,
					  req->offset);
		req->error = problem ? map_error(problem) : BLK_STS_OK;
	} else {
		for (i = 0; !req->error && i < req->desc_cnt; i++)
			do_io(req, &(req->io_desc[i]));
	}
}

/* Whether the operation has been given to the host, which tells its end by fathom_ended. */
static int fathom_begin(struct io_thread_req *req)
{
	enum req_op op = req_op(req->req);

	if (!fathom_is_plain(req))
		return 0;
	fathom_gather(req);
	return fathom_submit(req, req->fds[0], op == REQ_OP_FLUSH ? FATHOM_FLUSH : op == REQ_OP_WRITE, fathom_pieces,
			     req->desc_cnt, req->offset);
}

/* What the host says of an operation's end: bytes, or minus an errno. */
static void fathom_end(struct io_thread_req *req, long long result)
{
	long long asked = 0;
	int i;

	for (i = 0; i < req->desc_cnt; i++)
		asked += req->io_desc[i].length;
	if (result == asked)
		return;
	/*
	 * Less than asked lies behind the end of the image; -EINVAL is an image that refuses direct I/O; where nothing can
	 * be given to the host, the operation was not begun.
	 */
	if (result >= 0 || result == -EINVAL || result == -EAGAIN)
		fathom_complete(req);
	else
		req->error = map_error(-result);
}

/* The driver's thread, for ever; returns where the host has no asynchronous I/O. */
static void fathom_serve(void)
{
	static struct io_thread_req *asked[UBD_REQ_BUFFER_SIZE], *ended[2 * UBD_REQ_BUFFER_SIZE];
	static struct fathom_end ends[UBD_REQ_BUFFER_SIZE];
	int i, n, count, bytes, written, res;

	if (!fathom_start())
		return;
	while (1) {
		count = 0;
		n = os_read_file(kernel_fd, asked, sizeof(asked));
		/* One pointer is written at a time and is never torn: it is far smaller than a buffer of a socket's. */
		for (i = 0; i < n / (int) sizeof(asked[0]); i++) {
			if (fathom_begin(asked[i]))
				continue;
			fathom_complete(asked[i]);
			ended[count++] = asked[i];
		}
		n = fathom_ended(ends, UBD_REQ_BUFFER_SIZE);
		for (i = 0; i < n; i++) {
			ended[count] = ends[i].owner;
			fathom_end(ended[count++], ends[i].result);
		}
		if (count == 0) {
			fathom_wait(kernel_fd);
			continue;
		}
		bytes = count * sizeof(ended[0]);
		for (written = 0; written < bytes; written += res > 0 ? res : 0) {
			res = os_write_file(kernel_fd, (char *) ended + written, bytes - written);
			if (res <= 0)
				ubd_write_poll(-1);
		}
	}
}

