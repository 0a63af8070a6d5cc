/* Starts a task's command by vfork: a fork that copies no page tables, which are most of its cost.
 *
 * vfork lends the child the warden's memory and stops the warden until the child has become the
 * command. So the child makes system calls and nothing else, and the warden forks where one of them
 * could hang or fail (warden.py). It calls this by ctypes: no header of Python is needed, and one
 * library serves each of its versions.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Start the program at `path`, and return its pid; 0 if it cannot be started so.
 *
 * `block` holds `arguments` and then `variables`, each with a NUL behind it, in `size` bytes. `fds`
 * become the descriptors 0 to 3. No signal has a handler in the warden. */
int start(const char *path, char *block, size_t size, size_t arguments, size_t variables,
          const int *fds, pid_t warden) {
    size_t count = 0;
    char **strings = malloc((arguments + variables + 2) * sizeof *strings);
    if (strings == NULL) return 0;
    char **argv = strings, **envp = strings + arguments + 1;
    for (char *next = block; next < block + size; next += strlen(next) + 1) {
        if (count == arguments + variables) { /* there is a NUL within one of them */
            free(strings);
            return 0;
        }
        strings[count + (count >= arguments)] = next;
        count++;
    }
    argv[arguments] = envp[variables] = NULL;

    sigset_t none;
    sigemptyset(&none);
    volatile int failed = 0;
    pid_t child = vfork();
    if (child == 0) {
        setsid();
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != warden) _exit(1); /* it died before we asked */
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        for (int target = 0; target < 4; target++) dup2(fds[target], target);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execve(path, argv, envp);
        failed = 1;
        _exit(127);
    }
    free(strings);
    if (child > 0 && failed) waitpid(child, NULL, 0);
    return child < 0 || failed ? 0 : child;
}
