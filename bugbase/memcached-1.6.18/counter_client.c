/* The users of a counter: threads that each increment it, all at once, over
 * connections of their own. When they are done, the server is asked to check the
 * count and to end; a server that is to stay is left alone.
 *
 * Usage: counter_client SOCKET THREADS INCREMENTS [stay]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *path;
static int increments;

/* The server may not be there yet; it has ten seconds. */
static FILE *connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    for (int attempt = 0; attempt < 5000; attempt++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fdopen(fd, "r+");
        close(fd);
        usleep(2000);
    }
    exit(2);
}

/* Sends a request and waits for the line that answers it. */
static void ask(FILE *server, const char *request)
{
    char answer[256];
    size_t length = strlen(request);
    if (write(fileno(server), request, length) != (ssize_t)length)
        exit(3);
    if (!fgets(answer, sizeof answer, server))
        exit(4);
}

static void *user(void *unused)
{
    FILE *server = connected();
    for (int i = 0; i < increments; i++)
        ask(server, "incr visits 1\r\n");
    fclose(server);
    return unused;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        return 1;
    alarm(20);
    path = argv[1];
    int threads = atoi(argv[2]);
    increments = atoi(argv[3]);
    FILE *server = connected();
    ask(server, "set visits 0 0 1\r\n0\r\n");
    pthread_t users[threads];
    for (int i = 0; i < threads; i++)
        pthread_create(&users[i], NULL, user, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(users[i], NULL);
    if (argc == 5)
        return 0;
    char check[64];
    snprintf(check, sizeof check, "check visits %d\r\n", threads * increments);
    ask(server, check);
    static const char shutdown[] = "shutdown\r\n";
    if (write(fileno(server), shutdown, sizeof shutdown - 1) < 0)
        return 5;
    /* The server closes the connection, and looks up from its sleep at the next one. */
    while (fgetc(server) != EOF)
        ;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}
