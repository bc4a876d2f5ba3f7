#!/bin/sh
# sh launch.sh NAME     starts one server of the plan; keys come from the environment, see keys.env
# Concurrency is the plan's cap: the server refuses to run what the gateway ought not to let through.

qwen3_8b_awq_1_vllm() {
    vllm serve Qwen3-8B-AWQ --max-num-seqs 100 --max-model-len 8192 --api-key "$QWEN3_8B_AWQ_API_KEY" --port 8000
}

qwen3_8b_awq_1_sglang() {
    python -m sglang.launch_server --model-path Qwen3-8B-AWQ --served-model-name Qwen3-8B-AWQ --max-running-requests 100 --context-length 8192 --api-key "$QWEN3_8B_AWQ_API_KEY" --port 8000 --enable-metrics
}

qwen3_8b_awq_1_llamacpp() {
    llama-server -m Qwen3-8B-AWQ.gguf --alias Qwen3-8B-AWQ --parallel 100 -c 819200 --api-key "$QWEN3_8B_AWQ_API_KEY" --port 8000 --metrics
}

qwen3_8b_awq_1_ollama() {
    OLLAMA_NUM_PARALLEL=100 OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_KEEP_ALIVE=-1 OLLAMA_HOST=127.0.0.1:8000 ollama serve
}

qwen3_32b_awq_1_vllm() {
    vllm serve Qwen3-32B-AWQ --max-num-seqs 20 --max-model-len 8192 --api-key "$QWEN3_32B_AWQ_API_KEY" --port 443
}

qwen3_32b_awq_1_sglang() {
    python -m sglang.launch_server --model-path Qwen3-32B-AWQ --served-model-name Qwen3-32B-AWQ --max-running-requests 20 --context-length 8192 --api-key "$QWEN3_32B_AWQ_API_KEY" --port 443 --enable-metrics
}

qwen3_32b_awq_1_llamacpp() {
    llama-server -m Qwen3-32B-AWQ.gguf --alias Qwen3-32B-AWQ --parallel 20 -c 163840 --api-key "$QWEN3_32B_AWQ_API_KEY" --port 443 --metrics
}

qwen3_32b_awq_1_ollama() {
    OLLAMA_NUM_PARALLEL=20 OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_KEEP_ALIVE=-1 OLLAMA_HOST=127.0.0.1:443 ollama serve
}

qwen3_32b_awq_2_vllm() {
    vllm serve Qwen3-32B-AWQ --max-num-seqs 20 --max-model-len 8192 --api-key "$QWEN3_32B_AWQ_API_KEY" --port 443
}

qwen3_32b_awq_2_sglang() {
    python -m sglang.launch_server --model-path Qwen3-32B-AWQ --served-model-name Qwen3-32B-AWQ --max-running-requests 20 --context-length 8192 --api-key "$QWEN3_32B_AWQ_API_KEY" --port 443 --enable-metrics
}

qwen3_32b_awq_2_llamacpp() {
    llama-server -m Qwen3-32B-AWQ.gguf --alias Qwen3-32B-AWQ --parallel 20 -c 163840 --api-key "$QWEN3_32B_AWQ_API_KEY" --port 443 --metrics
}

qwen3_32b_awq_2_ollama() {
    OLLAMA_NUM_PARALLEL=20 OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_KEEP_ALIVE=-1 OLLAMA_HOST=127.0.0.1:443 ollama serve
}

case " qwen3_8b_awq_1_vllm qwen3_8b_awq_1_sglang qwen3_8b_awq_1_llamacpp qwen3_8b_awq_1_ollama qwen3_32b_awq_1_vllm qwen3_32b_awq_1_sglang qwen3_32b_awq_1_llamacpp qwen3_32b_awq_1_ollama qwen3_32b_awq_2_vllm qwen3_32b_awq_2_sglang qwen3_32b_awq_2_llamacpp qwen3_32b_awq_2_ollama " in
*" ${1:-none} "*) "$1" ;;
*) echo "sh launch.sh NAME, one of: qwen3_8b_awq_1_vllm qwen3_8b_awq_1_sglang qwen3_8b_awq_1_llamacpp qwen3_8b_awq_1_ollama qwen3_32b_awq_1_vllm qwen3_32b_awq_1_sglang qwen3_32b_awq_1_llamacpp qwen3_32b_awq_1_ollama qwen3_32b_awq_2_vllm qwen3_32b_awq_2_sglang qwen3_32b_awq_2_llamacpp qwen3_32b_awq_2_ollama" >&2; exit 2 ;;
esac
