/*
 * Fathom: one request of the block layer is one operation on the image, and a flush reaches it.
 *
 * As it comes, the driver's thread handles a request piece by piece, so a request of 128 KiB becomes 32 writes of 4 KiB,
 * and a flush, which has no pieces, becomes nothing at all.
 */
static int fathom_whole_request(struct io_thread_req *req)
{
	struct iovec pieces[MAX_SG];
	enum req_op op = req_op(req->req);
	int i, problem;

	if (op == REQ_OP_FLUSH) {
		do_io(req, NULL);
		return 1;
	}
	/* Other operations have one piece; a copy-on-write image has its own ways. */
	if ((op != REQ_OP_READ && op != REQ_OP_WRITE) || req->desc_cnt < 1 || req->io_desc[0].sector_mask ||
	    req->io_desc[0].cow_offset != -1 || req->fds[0] != req->fds[1])
		return 0;
	for (i = 0; i < req->desc_cnt; i++) {
		pieces[i].iov_base = (void *) req->io_desc[i].buffer;
		pieces[i].iov_len = req->io_desc[i].length;
	}
	problem = fathom_transfer(req->fds[0], op == REQ_OP_WRITE, pieces, req->desc_cnt, req->offset);
	if (problem)
		req->error = map_error(problem);
	return 1;
}

