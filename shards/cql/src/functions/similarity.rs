//! `similarity_cosine` and the like: the similarity of two vectors of floats, from 0 to 1; unbounded for the dot
//! product.
//!
//! Sums are computed in the same order as in Cassandra, so that the last bit is the same.

use super::Function;
use super::catalogue::Similarity;
use model::Failure;

/// Number of products that are added up before they join the sum.
const STEP: usize = 8;

/// The similarity of two vectors of the same dimension.
pub(super) fn evaluate(
    function: &Function,
    measure: Similarity,
    arguments: &[&[u8]],
) -> Result<Option<Vec<u8>>, Failure> {
    let [left, right] = arguments else { return Ok(None) };
    let (left, right) = (floats(left), floats(right));
    let similarity = match measure {
        Similarity::Cosine => {
            if is_zero(&left) || is_zero(&right) {
                return Err(Failure::invalid(format!("Function {} doesn't support all-zero vectors.", function.name)));
            }
            (1.0 + cosine(&left, &right)) / 2.0
        }
        Similarity::Euclidean => 1.0 / (1.0 + square_distance(&left, &right)),
        Similarity::DotProduct => (1.0 + dot_product(&left, &right)) / 2.0,
    };
    Ok(Some(similarity.to_be_bytes().to_vec()))
}

fn floats(vector: &[u8]) -> Vec<f32> {
    vector.chunks_exact(size_of::<f32>()).map(|element| element.try_into().map_or(0.0, f32::from_be_bytes)).collect()
}

fn is_zero(vector: &[f32]) -> bool {
    vector.iter().all(|element| *element == 0.0)
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let (mut sum, mut left_norm, mut right_norm) = (0.0f32, 0.0f32, 0.0f32);
    for (left, right) in left.iter().zip(right) {
        sum += left * right;
        left_norm += left * left;
        right_norm += right * right;
    }
    (f64::from(sum) / (f64::from(left_norm) * f64::from(right_norm)).sqrt()) as f32
}

fn dot_product(left: &[f32], right: &[f32]) -> f32 {
    // The incomplete step comes first.
    let first = left.len() % STEP;
    let (left, left_steps) = left.split_at(first);
    let (right, right_steps) = right.split_at(first.min(right.len()));
    let head = left.iter().zip(right).fold(0.0, |sum, (left, right)| sum + left * right);
    let steps = left_steps.chunks_exact(STEP).zip(right_steps.chunks_exact(STEP));
    steps.fold(head, |sum, (left, right)| {
        let mut products = left.iter().zip(right).map(|(left, right)| left * right);
        let first = products.next().unwrap_or(0.0);
        sum + products.fold(first, |sum, product| sum + product)
    })
}

fn square_distance(left: &[f32], right: &[f32]) -> f32 {
    let square = |(left, right): (&f32, &f32)| (left - right) * (left - right);
    let (left_steps, right_steps) = (left.chunks_exact(STEP), right.chunks_exact(STEP));
    let (left_rest, right_rest) = (left_steps.remainder(), right_steps.remainder());
    let steps = left_steps.zip(right_steps).fold(0.0f32, |sum, (left, right)| {
        let mut squares = left.iter().zip(right).map(square);
        let first = squares.next().unwrap_or(0.0);
        sum + squares.fold(first, |sum, square| sum + square)
    });
    left_rest.iter().zip(right_rest).map(square).fold(steps, |sum, square| sum + square)
}
