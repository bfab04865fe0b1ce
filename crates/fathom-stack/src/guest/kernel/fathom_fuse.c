/*
 * Fathom: the host's FUSE connection as a device of the guest, so that a program in the guest serves a mount of the host's.
 *
 * The host mounts a FUSE file system and starts the guest with fathom_fuse=FD, the connection's descriptor. Here it is
 * /dev/fathom-fuse: a read takes one request of the host's kernel, a write gives one answer, as on /dev/fuse itself.
 * Requests announce themselves as any input of a guest does, by SIGIO; the descriptor does not block, so whoever finds
 * nothing to read sleeps here and not in the host.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/gfp.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <irq_kern.h>
#include <os.h>

/* Larger than the largest request or answer: 128 KiB of data and its header. */
#define FATHOM_ROOM (256 << 10)

extern int fathom_readable(int fd);

static int fathom_fd = -1;
static void *fathom_asked, *fathom_answered;
static DEFINE_MUTEX(fathom_asking);
static DEFINE_MUTEX(fathom_answering);
static DEFINE_MUTEX(fathom_opening);
static bool fathom_ready;
static unsigned int fathom_announced;
static DECLARE_WAIT_QUEUE_HEAD(fathom_waiting);

static int __init fathom_fuse_setup(char *text)
{
	return kstrtoint(text, 10, &fathom_fd) == 0;
}
__setup("fathom_fuse=", fathom_fuse_setup);

static irqreturn_t fathom_announce(int irq, void *data)
{
	WRITE_ONCE(fathom_announced, fathom_announced + 1);
	wake_up_interruptible(&fathom_waiting);
	return IRQ_HANDLED;
}

static int fathom_fuse_open(struct inode *inode, struct file *file)
{
	int problem = 0;

	mutex_lock(&fathom_opening);
	if (!fathom_ready) {
		/* Not at boot: the host must have mounted before its connection can announce anything. */
		problem = um_request_irq(UM_IRQ_ALLOC, fathom_fd, IRQ_READ, fathom_announce, 0, "fathom-fuse",
					 &fathom_waiting);
		if (problem >= 0) {
			fathom_ready = true;
			problem = 0;
		}
	}
	mutex_unlock(&fathom_opening);
	return problem;
}

/* One request, waited for. Threads take turns in the order in which they came. */
static ssize_t fathom_fuse_read(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	unsigned int seen;
	int taken, more;

	bytes = min_t(size_t, bytes, FATHOM_ROOM);
	for (;;) {
		seen = READ_ONCE(fathom_announced);
		if (mutex_lock_interruptible(&fathom_asking))
			return -EINTR;
		taken = os_read_file(fathom_fd, fathom_asked, bytes);
		more = taken != -EAGAIN && (taken < 0 || fathom_readable(fathom_fd));
		if (taken > 0 && copy_to_user(to, fathom_asked, taken))
			taken = -EFAULT;
		mutex_unlock(&fathom_asking);
		if (more) {
			/* Several requests may have come with one announcement, and the end is everybody's. */
			WRITE_ONCE(fathom_announced, fathom_announced + 1);
			wake_up_interruptible(&fathom_waiting);
		}
		if (taken != -EAGAIN)
			return taken;
		if (wait_event_interruptible_exclusive(fathom_waiting, READ_ONCE(fathom_announced) != seen))
			return -EINTR;
	}
}

static ssize_t fathom_fuse_write(struct kiocb *control, struct iov_iter *from)
{
	size_t bytes = iov_iter_count(from);
	int done;

	if (bytes > FATHOM_ROOM)
		return -EINVAL;
	mutex_lock(&fathom_answering);
	if (copy_from_iter_full(fathom_answered, bytes, from))
		done = os_write_file(fathom_fd, fathom_answered, bytes);
	else
		done = -EFAULT;
	mutex_unlock(&fathom_answering);
	return done;
}

static const struct file_operations fathom_fuse_operations = {
	.open = fathom_fuse_open,
	.read = fathom_fuse_read,
	.write_iter = fathom_fuse_write,
	.llseek = noop_llseek,
};

static struct miscdevice fathom_fuse_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fathom-fuse",
	.fops = &fathom_fuse_operations,
};

static int __init fathom_fuse_init(void)
{
	int order = get_order(FATHOM_ROOM);

	if (fathom_fd < 0)
		return 0;
	fathom_asked = (void *) __get_free_pages(GFP_KERNEL, order);
	fathom_answered = (void *) __get_free_pages(GFP_KERNEL, order);
	if (!fathom_asked || !fathom_answered)
		return -ENOMEM;
	return misc_register(&fathom_fuse_device);
}
late_initcall(fathom_fuse_init);
