/* env.h - NCCL's environment variables: the one table of what the binding makes of them. README's table is made from it
 * (scripts/env_table). A MARROW_* variable goes before the NCCL_* one of the same meaning. */
#ifndef MARROW_NCCL_ENV_H
#define MARROW_NCCL_ENV_H

/* X("NAME", effect, "meaning"). USED: followed. MOOT: has always been so, or means nothing here; not reported. Any other NCCL_* name
 * that is set is named once a process on stderr as ignored. */
#define NCCL_ENV_LIST(X) \
	X("NCCL_DEBUG", USED, "VERSION, WARN, INFO (TRACE, ABORT as INFO): lines on stderr; VERSION and INFO name this library's file") \
	X("NCCL_DEBUG_FILE", USED, "file for these lines; %h host, %p process") \
	X("NCCL_SOCKET_IFNAME", USED, "one interface prefix, or =name; lists and ^exclusions are ignored (MARROW_SOCKET_IFNAME)") \
	X("NCCL_IB_HCA", USED, "names of RDMA devices, with or without = and ports; prefixes and ^exclusions are ignored (MARROW_NICS)") \
	X("NCCL_HOSTID", USED, "host identity (MARROW_HOST_ID)") \
	X("NCCL_COMM_BLOCKING", USED, "0 or 1 instead of config.blocking") \
	X("NCCL_MAX_CTAS", USED, "most CUDA blocks a collective uses, instead of config.maxCTAs (MARROW_MAX_CTAS)") \
	X("NCCL_MAX_NCHANNELS", USED, "the same where NCCL_MAX_CTAS is unset") \
	X("NCCL_CHECK_POINTERS", MOOT, "pointers are always checked") \
	X("NCCL_IGNORE_CPU_AFFINITY", MOOT, "no thread is bound: there is none") \
	X("NCCL_SET_THREAD_NAME", MOOT, "there are no threads to name") \
	X("NCCL_SET_STACK_SIZE", MOOT, "the stack is always reserved at init") \
	X("NCCL_CUMEM_ENABLE", MOOT, "memory is always of the VMM kind") \
	X("NCCL_CUMEM_HOST_ENABLE", MOOT, "no host buffers are shared on GPUs") \
	X("NCCL_GRAPH_REGISTER", MOOT, "registration is never a condition") \
	X("NCCL_LOCAL_REGISTER", MOOT, "registration is never a condition") \
	X("NCCL_DMABUF_ENABLE", MOOT, "decided by what the machine has") \
	X("NCCL_NVLS_ENABLE", MOOT, "NVLink multicast is not used") \
	X("NCCL_LAUNCH_MODE", MOOT, "there is one way to launch") \
	X("NCCL_ASYNC_ERROR_HANDLING", MOOT, "PyTorch's, as TORCH_NCCL_*") \
	X("NCCL_BLOCKING_WAIT", MOOT, "PyTorch's, as TORCH_NCCL_*") \
	X("NCCL_DESYNC_DEBUG", MOOT, "PyTorch's, as TORCH_NCCL_*") \
	X("NCCL_VERSION", MOOT, "set in containers, to say which NCCL is installed there")

#endif
