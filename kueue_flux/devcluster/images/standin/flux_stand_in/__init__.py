"""A STAND-IN for Flux, for machines that have none: it is not Flux, and says so in its version.

It does in earnest what the adapter's files ask for, and no more: it reads broker.toml, R.json and the certificate,
joins its peers over CURVE, waits until all are there, runs a command as tasks on all ranks, and returns the highest
exit code. Of Flux's commands it knows those that start.sh uses. There is no scheduler, the KVS is a dictionary,
one job runs at a time, and every worker is the lead's child.

It is copied into an image by itself, so it imports the standard library and pyzmq only.
"""
