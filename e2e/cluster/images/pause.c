/* The program of a pod's sandbox, and of a node's first process once it has set the node up: it holds namespaces open,
 * reaps what is left to it, and does nothing else. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal)
{
	(void)signal;
	_exit(0);
}

static void reap(int signal)
{
	(void)signal;
	while (waitpid(-1, 0, WNOHANG) > 0) {
	}
}

int main(void)
{
	struct sigaction on_end, on_child;

	memset(&on_end, 0, sizeof on_end);
	memset(&on_child, 0, sizeof on_child);
	on_end.sa_handler = end;
	on_child.sa_handler = reap;
	on_child.sa_flags = SA_NOCLDSTOP;
	sigaction(SIGINT, &on_end, 0);
	sigaction(SIGTERM, &on_end, 0);
	sigaction(SIGCHLD, &on_child, 0);
	for (;;)
		pause();
}
