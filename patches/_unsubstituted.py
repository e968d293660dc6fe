"""Every float entry point of ``paddle._C_ops`` that deliberately stays native, with its reason.

``EXACT`` names round nothing: they create, move, select, compare or count values, and both frameworks give the same bits, so they
are neither substituted nor recorded. Views in particular are never substituted: a view must share Paddle's storage and version
counter. Everything that is in neither table nor in an op's entries is recorded as native with ``NO_REFERENCE``.
"""

from __future__ import annotations

from padiff_shim.table import reasons

# Legacy entry points of ops of the table that cannot lead to them.
_LEGACY = {
    reasons.RESULT_AMONG_ARGUMENTS: "matmul",
    reasons.CACHES: "einsum rnn",
    reasons.STATISTICS: """layer_norm batch_norm group_norm instance_norm fused_bias_residual_layernorm fused_rms_norm_ext
        fused_rms_norm_quant rms_norm segment_pool""",
    reasons.SLOPES: "rrelu",
    reasons.OLD_FORM: """lu affine_grid bicubic_interp bilinear_interp linear_interp nearest_interp trilinear_interp
        interp_antialias index_add index_add_ index_put put_along_axis scatter scatter_nd_add""",
    reasons.SUM_OF_LIST: "sum",
    reasons.OPTIONAL_TENSOR: """fused_bias_act fused_rotary_position_embedding swiglu label_smooth bilinear_tensor_product
        sigmoid_cross_entropy_with_logits sigmoid_cross_entropy_with_logits_""",
    reasons.BROKEN: "sign",
    reasons.RANDOM: """dropout dropout_nd bernoulli binomial dirichlet exponential exponential_ gaussian_inplace gaussian_inplace_
        gumbel_softmax multinomial poisson random random_ standard_gamma truncated_gaussian_random""",
    reasons.BESIDE_LOSS: "huber_loss cross_entropy softmax_with_cross_entropy_",
}
LEGACY = {name: reason for reason, names in _LEGACY.items() for name in names.split()}
# Those that move values: as exact as ``EXACT``.
LEGACY_EXACT = frozenset(
    """amax amin argsort kthvalue mode cummax cummin topk unfold assign broadcast_tensors cast channel_shuffle concat
    embedding expand flip gather gather_nd index_sample index_select masked_fill masked_select meshgrid pad pad3d
    pixel_shuffle pixel_unshuffle repeat_interleave roll split stack take_along_axis tile unstack where""".split()  # noqa: SIM905
)

# Places of results that a kernel may leave unwritten: what only the backward of an older form reads, and all of a window of scales
# but the one that this step wrote.
UNWRITTEN = {
    **dict.fromkeys(("batch_norm", "batch_norm_", "sync_batch_norm_"), frozenset({3, 4, 5})),
    "fake_quantize_range_abs_max": frozenset({2}),
}

_CREATE = """arange assign_value assign_value_ data empty empty_like eye full full_ full_batch_size_like full_int_array full_like
    full_with_tensor linspace logspace ones ones_like zeros zeros_like tril_indices triu_indices fill fill_ create_array
    create_array_like range_v2 one_hot sequence_mask numel shape shape64 is_empty"""
_MOVE = """as_complex as_real as_strided assign_ assign_out_ builtin_combine builtin_split cast_ coalesce_tensor coalesce_tensor_
    complex conj copy_to crop diag_embed diagonal fill_diagonal fill_diagonal_ fill_diagonal_tensor fill_diagonal_tensor_
    flatten flatten_ get_tensor_from_selected_rows imag index_elementwise_get index_elementwise_put index_elementwise_put_
    index_elementwise_put_with_tensor index_elementwise_put_with_tensor_ index_put_ index_select_strided masked_fill_ memcpy
    memcpy_d2h memcpy_h2d multiplex put_along_axis_ real reshape reshape_ reverse scatter_ set set_ set_value set_value_
    set_value_with_tensor set_value_with_tensor_ share_data share_data_ share_var slice slice_array slice_array_dense squeeze
    squeeze_ strided_slice temporal_shift tensor_unfold trans_layout transpose transpose_ tril_ triu_ unbind unsqueeze
    unsqueeze_ view_dtype view_shape view_slice where_ npu_identity depend nop nop_ increment increment_ array_length
    array_pop array_read array_to_tensor array_write_ print"""
_SELECT = """all allclose any equal equal_ equal_all greater_equal greater_equal_ greater_than greater_than_
    heaviside isclose isfinite isinf isnan less_equal less_equal_ less_than less_than_ logical_and logical_and_ logical_not
    logical_not_ logical_or logical_or_ logical_xor logical_xor_ max_with_index min_with_index nonzero not_equal not_equal_
    restrict_nonzero searchsorted unique unique_consecutive nextafter bitwise_and bitwise_and_ bitwise_left_shift
    bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor
    bitwise_xor_ accuracy accuracy_check auc bincount check_numerics histogram enable_check_model_nan_inf
    disable_check_model_nan_inf parameter set_parameter set_persistable_value get_core_ops_args_info
    get_core_ops_args_type_info get_core_ops_returns_info _run_python_op check_finite_and_unscale check_finite_and_unscale_
    update_loss_scaling update_loss_scaling_"""

_OLD_NAMES = """reshape2 reshape2_ transpose2 squeeze2 squeeze2_ unsqueeze2 unsqueeze2_ flatten2 flatten_contiguous_range
    flatten_contiguous_range_ expand_v2 expand_as_v2 fill_constant fill_any fill_any_like fill_zeros_like fill_zeros_like2
    lookup_table lookup_table_v2 one_hot_v2 arg_max arg_min top_k crop_tensor top_k_v2 reduce_amax reduce_amin tril_triu
    where_index range size shuffle_channel share_buffer diag_v2 reduce_all reduce_any lod_reset im2sequence sequence_expand
    partial_concat gather_tree isfinite_v2 isinf_v2 isnan_v2 elementwise_heaviside flatten2_ fill_any_
    fill_constant_batch_size_like lod_reset_ unpool3d max_pool2d_v2 unique_with_counts"""

EXACT = frozenset(" ".join((_CREATE, _MOVE, _SELECT, _OLD_NAMES)).split())

_REASONS = {
    reasons.OPTIMIZER: """average_accumulates_ decayed_adagrad dgc dgc_momentum dpsgd ftrl fused_adam_ lars_momentum lars_momentum_
        distributed_fused_lamb_init adam adamw sgd momentum adagrad adadelta adamax
        rmsprop lamb merged_adam merged_momentum sparse_momentum proximal_gd distributed_fused_lamb rprop average_accumulates
        asgd nadam radam""",
    reasons.RANDOM: """fused_dropout_add uniform_random_batch_size_like gaussian_random uniform_random uniform_random_inplace
        uniform_random_inplace_ seed""",
    reasons.RANDOM_ALONE: "class_center_sample nce sampling_id shuffle_batch top_p_sampling",
    reasons.OTHER_WINDOWS: "fractional_max_pool2d fractional_max_pool3d",
    reasons.FUSED: """add_position_encoding affine_channel attention_lstm batch_fc block_multihead_attention_xpu_ div_scale fc
        self_dp_attention onednn_to_paddle_layout cudnn_lstm multi_gru""",
    reasons.NOT_ON_CPU: """add_group_norm_silu batched_gemm blha_get_max_len block_multihead_attention block_multihead_attention_
        calc_reduced_attn_scores conv2d_transpose_bias depthwise_conv2d_bias depthwise_conv3d_bias fast_ln fast_rms_norm
        fp8_fp8_half_gemm_fused fp8_gemm_blockwise gemm_epilogue masked_multihead_attention masked_multihead_attention_
        memory_efficient_attention multihead_matmul qkv_unpack_mha resnet_basic_block resnet_unit skip_layernorm
        squeeze_excitation_block variable_length_memory_efficient_attention tensorrt_engine embedding_grad_add_to
        embedding_grad_add_to_ embedding_grad_dense embedding_with_scaled_gradient cross_entropy_with_softmax_bwd_w_downcast
        flash_attn flash_attn_qkvpacked flash_attn_unpadded flash_attn_v3 flash_attn_v3_varlen
        flash_attn_varlen_qkvpacked flashmask_attention flashmask_attention_v2 fused_act_dequant fused_attention
        fused_batch_norm_act fused_bias_dropout_residual_layer_norm fused_bn_add_activation
        fused_conv2d_add_act fused_dot_product_attention fused_embedding_eltwise_layernorm fused_fc_elementwise_layernorm
        fused_feedforward fused_linear_param_grad_add fused_multi_transformer fused_partial_rope
        fused_stack_quant fused_stack_transpose_quant
        fused_swiglu_weighted_bwd fused_token_prune fused_transpose_split_quant fused_transpose_wlch_split_quant
        fused_weighted_swiglu_act_quant fusion_transpose_flatten_concat fused_softmax_mask_upper_triangle""",
    reasons.QUANTISED: """apply_per_channel_scale dequantize_abs_max dequantize_linear dequantize_log
        fake_channel_wise_dequantize_max_abs fake_channel_wise_quantize_abs_max fake_channel_wise_quantize_dequantize_abs_max
        fake_dequantize_max_abs fake_quantize_abs_max fake_quantize_dequantize_abs_max
        fake_quantize_dequantize_moving_average_abs_max fake_quantize_dequantize_moving_average_abs_max_
        fake_quantize_moving_average_abs_max fake_quantize_moving_average_abs_max_ fake_quantize_range_abs_max
        fake_quantize_range_abs_max_ fp8_quant_blockwise llm_int8_linear lookup_table_dequant moving_average_abs_max_scale
        quantize_linear weight_dequantize weight_only_linear weight_quantize dequantize quant_linear quantize requantize""",
    reasons.DETECTION: """anchor_generator bipartite_match box_clip box_coder collect_fpn_proposals correlation deformable_conv
        distribute_fpn_proposals generate_proposals matrix_nms multiclass_nms3 nms prior_box psroi_pool roi_align roi_pool
        yolo_box yolo_box_head yolo_box_post yolo_loss box_decoder_and_assign deformable_conv_v1 deformable_psroi_pooling
        density_prior_box detection_map generate_mask_labels generate_proposal_labels generate_proposals_v2 iou_similarity
        locality_aware_nms mine_hard_examples multiclass_nms multiclass_nms2 polygon_box_transform retinanet_detection_output
        retinanet_target_assign rpn_target_assign yolov3_loss""",
    reasons.EXPERTS: """assign_pos build_src_rank_and_local_expert_id cal_aux_loss expand_modality_expert_id limit_by_capacity
        moe_combine moe_combine_auto moe_combine_no_weight moe_gate_dispatch moe_gate_dispatch_and_quant moe_gate_dispatch_auto
        moe_gate_dispatch_partial_nosoftmaxtopk moe_gate_dispatch_permute moe_permute moe_unpermute number_count moe_dispatch
        moe_ffn moe_reduce prune_gate_by_capacity random_routing int_bincount""",
    reasons.TEXT: """beam_search beam_search_decode chunk_eval crf_decoding ctc_align cvm edit_distance gru gru_unit hash lstm
        match_matrix_tensor partial_sum pyramid_hash rank_attention sequence_conv sequence_pool sequence_softmax shard_index
        tdm_child tdm_sampler viterbi_decode merge_selected_rows strings_empty strings_empty_like strings_lower strings_upper
        faster_tokenizer linear_chain_crf sequence_concat sequence_enumerate sequence_erase sequence_expand_as sequence_pad
        sequence_reshape sequence_reverse sequence_scatter sequence_slice sequence_unpad var_conv_2d""",
    reasons.NO_COUNTERPART: """bilateral_slice bpr_loss data_norm fsp hierarchical_sigmoid hsigmoid_loss modified_huber_loss
        positive_negative_pair pow2_decay_with_linear_warmup precision_recall rank_loss row_conv similarity_focus soft_relu
        soft_relu_ spp teacher_student_sigmoid_loss warprnnt""",
    reasons.ONE_STEP: """cross_entropy2 median nanmedian nansum nll_loss norm lstsq std stft var variance warpctc""",
    reasons.OLD_FORM: """bicubic_interp_v2 bilinear_interp_v2 grad_add graph_send_recv graph_send_ue_recv graph_send_uv
        linear_interp_v2 lrn minus nearest_interp_v2 slogdeterminant trilinear_interp_v2""",
    reasons.SEVERAL_IN_PLACE: "batch_norm_ cross_entropy_with_softmax_ lu_",
    reasons.OTHER_RESULT: "l1_norm_",
    reasons.COUNTED: "matrix_rank matrix_rank_atol_rtol matrix_rank_tol",
    reasons.SAMPLING: "graph_khop_sampler graph_reindex graph_sample_neighbors reindex_graph weighted_sample_neighbors",
    reasons.MACHINERY: """ap_facade ap_trivial_fusion_begin ap_trivial_fusion_end ap_variadic decode_jpeg dist_reshape
        dtensor_from_local dtensor_to_local fetch identity_loss moe_global_mesh_tensor moe_sub_mesh_tensors read_file shard_tensor
        sync_calc_stream sync_calc_stream_ sync_comm_stream update_parameter add_n_array alloc_float_status assert
        c_sync_calc_stream c_sync_calc_stream_ c_sync_comm_stream c_sync_comm_stream_ check_memory_continue clear_float_status
        comm_init_all feed fetch_barrier fetch_v2 get_float_status load load_combine save save_combine shadow_output
        transfer_dtype transfer_layout unzip""",
    reasons.COMPILED: "run_program pir_run_program",
    reasons.CUSTOM: "_run_custom_op",
    reasons.COMMUNICATION: """c_embedding c_softmax_with_cross_entropy c_softmax_with_multi_label_cross_entropy margin_cross_entropy
        dgc_clip_by_norm all_gather all_reduce all_reduce_ all_to_all barrier broadcast broadcast_ c_allreduce_sum
        c_allreduce_sum_ c_concat c_identity c_identity_ c_scatter c_split c_allgather c_allreduce_max c_allreduce_max_
        c_broadcast c_broadcast_ c_reduce_sum c_reduce_sum_ c_allreduce_prod c_allreduce_min c_reduce_min c_reduce_max
        c_reducescatter alltoall mp_allreduce_sum mp_allreduce_sum_ partial_allgather partial_allgather_ recv_v2 reduce
        reduce_ reduce_scatter reshard reshard_v2 send_v2 global_gather global_scatter c_reduce_prod dist_concat
        distributed_lookup_table distributed_push_sparse p_recv p_recv_array p_send p_send_array partial_recv partial_send
        pull_box_extended_sparse pull_box_sparse pull_gpups_sparse pull_sparse pull_sparse_v2 push_dense send_and_recv
        sync_batch_norm_""",
}

NATIVE = {name: reason for reason, names in _REASONS.items() for name in names.split()}
# Whole kinds, by how their names begin.
PREFIXES = {"sparse_": reasons.SPARSE_OP, **dict.fromkeys(("fused_", "fusion_", "flash_", "flashmask_"), reasons.FUSED)}
SUFFIXES = {"_xpu": reasons.OTHER_DEVICE}


def reason(name: str) -> reasons.Reason:
    """Why the C op ``name`` (without ``paddle._C_ops.``) stays native."""
    if name in NATIVE:
        return NATIVE[name]
    kinds = [(name.startswith(prefix), reason) for prefix, reason in PREFIXES.items()]
    kinds += [(name.endswith(suffix), reason) for suffix, reason in SUFFIXES.items()]
    return next((reason for met, reason in kinds if met), reasons.NO_REFERENCE)
