"""The keys by which an object speaks to Kueue, spelled once.

Source: Kueue 0.19, ``pkg/controller/constants`` and ``pkg/controller/jobs/job``.
"""

# On the Job. The queue's name cannot change once the Job is unsuspended.
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"

# On the Job, for partial admission. Flux needs both: with the first alone Kueue shrinks parallelism
# but leaves completions, and indexes (so brokers) that never all run at once.
JOB_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
JOB_COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"

# On the Job, from its creation on: who must agree, by taking their word out of it, before Kueue looks at its Workload.
# The place in the queue is that of the creation. On by default since Kueue 0.19.
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"

# On the Workload, naming the Job that it stands for.
JOB_UID = "kueue.x-k8s.io/job-uid"

PREFIX = "kueue.x-k8s.io/"
