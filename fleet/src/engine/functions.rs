//! Functions of the fleet's SQL:
//!
//! | function | what |
//! |---|---|
//! | `merge_latency(latency)` | aggregate: histograms added up |
//! | `latency_percentile(latency, 0.99)` | the time that this share took at most, ns |
//! | `latency_mean(latency)` | the mean, ns |
//! | `host_group(host)` | a host's name without the number at its end |
//!
//! What does not belong here: tables.

use crate::histogram::{LatencyBin, add_bins, percentile, time_ns};
use crate::tables::{bin_fields, latency_type};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, Int64Builder, ListArray, ListBuilder, StringArray,
    StructBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The aggregate functions.
pub fn aggregates() -> Vec<Arc<AggregateUDF>> {
    vec![Arc::new(AggregateUDF::from(MergeLatency::default()))]
}

/// The scalar functions.
pub fn scalars() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::from(LatencyPercentile::default())),
        Arc::new(ScalarUDF::from(LatencyMean::default())),
        Arc::new(ScalarUDF::from(HostGroup::default())),
    ]
}

/// Calls `each` with row and bin of every bin.
fn for_each_bin(array: &dyn Array, mut each: impl FnMut(usize, LatencyBin)) -> Result<()> {
    let wrong = "a latency histogram is a list of from_ns and requests";
    if array.data_type() == &DataType::Null {
        return Ok(());
    }
    let Some(lists) = array.as_list_opt::<i32>() else { return exec_err!("{wrong}") };
    let Some(bins) = lists.values().as_struct_opt() else { return exec_err!("{wrong}") };
    let column =
        |name| bins.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let (Some(from_ns), Some(requests)) = (column("from_ns"), column("requests")) else {
        return exec_err!("{wrong}");
    };
    for row in (0..lists.len()).filter(|row| lists.is_valid(*row)) {
        let offsets = lists.value_offsets();
        for at in offsets[row] as usize..offsets[row + 1] as usize {
            let number = |column: &Int64Array| u64::try_from(column.value(at)).unwrap_or(0);
            each(row, (number(from_ns), number(requests)));
        }
    }
    Ok(())
}

/// A histogram for each row.
fn bins_of(array: &dyn Array) -> Result<Vec<Vec<LatencyBin>>> {
    let mut rows = vec![Vec::new(); array.len()];
    for_each_bin(array, |row, bin| {
        if let Some(bins) = rows.get_mut(row) {
            add_bins(bins, &[bin]);
        }
    })?;
    Ok(rows)
}

fn list_of(bins: &[LatencyBin]) -> ListArray {
    let mut list = ListBuilder::new(StructBuilder::from_fields(bin_fields(), bins.len()));
    for (from_ns, requests) in bins {
        let item = list.values();
        for (at, number) in [*from_ns, *requests].into_iter().enumerate() {
            if let Some(field) = item.field_builder::<Int64Builder>(at) {
                field.append_value(i64::try_from(number).unwrap_or(i64::MAX));
            }
        }
        item.append(true);
    }
    list.append(true);
    list.finish()
}

/// `merge_latency`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MergeLatency {
    signature: Signature,
}

impl Default for MergeLatency {
    fn default() -> MergeLatency {
        MergeLatency { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for MergeLatency {
    fn name(&self) -> &str {
        "merge_latency"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(latency_type())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(LatencySum::default()))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[latency]", args.name), latency_type(), true))])
    }
}

/// Histograms added up.
#[derive(Debug, Default)]
struct LatencySum {
    bins: Vec<LatencyBin>,
}

impl Accumulator for LatencySum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        for_each_bin(values, |_, bin| add_bins(&mut self.bins, &[bin]))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::List(Arc::new(list_of(&self.bins))))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bins.capacity() * size_of::<LatencyBin>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

fn arrays(args: ScalarFunctionArgs) -> Result<Vec<ArrayRef>> {
    ColumnarValue::values_to_arrays(&args.args)
}

/// `latency_percentile`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LatencyPercentile {
    signature: Signature,
}

impl Default for LatencyPercentile {
    fn default() -> LatencyPercentile {
        LatencyPercentile { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for LatencyPercentile {
    fn name(&self) -> &str {
        "latency_percentile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = arrays(args)?;
        let [latency, shares] = arrays.as_slice() else {
            return exec_err!("latency_percentile takes a histogram and a share");
        };
        let shares = cast(shares, &DataType::Float64)?;
        let shares = shares.as_primitive::<Float64Type>();
        if shares.iter().flatten().any(|share| !(0.0..=1.0).contains(&share)) {
            return exec_err!("the share of latency_percentile is between 0 and 1");
        }
        let found = bins_of(latency)?.into_iter().zip(shares.iter());
        let found = found.map(|(bins, share)| percentile(&bins, share?).map(|ns| ns as i64));
        Ok(ColumnarValue::Array(Arc::new(found.collect::<Int64Array>())))
    }
}

/// `latency_mean`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LatencyMean {
    signature: Signature,
}

impl Default for LatencyMean {
    fn default() -> LatencyMean {
        LatencyMean { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for LatencyMean {
    fn name(&self) -> &str {
        "latency_mean"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = arrays(args)?;
        let Some(latency) = arrays.first() else { return exec_err!("latency_mean takes one") };
        let mean = |bins: Vec<LatencyBin>| {
            let requests = bins.iter().map(|bin| bin.1).fold(0, u64::saturating_add);
            time_ns(&bins).checked_div(requests).map(|ns| ns as i64)
        };
        let found = bins_of(latency)?.into_iter().map(mean);
        Ok(ColumnarValue::Array(Arc::new(found.collect::<Int64Array>())))
    }
}

/// `host_group`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct HostGroup {
    signature: Signature,
}

impl Default for HostGroup {
    fn default() -> HostGroup {
        HostGroup { signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable) }
    }
}

/// A host's name without its domain, and without the number at its end.
pub fn host_group(host: &str) -> &str {
    let short = host.split('.').next().unwrap_or(host);
    let group = short.trim_end_matches(|character: char| character.is_ascii_digit());
    match group.trim_end_matches(['-', '_']) {
        "" => short,
        group => group,
    }
}

impl ScalarUDFImpl for HostGroup {
    fn name(&self) -> &str {
        "host_group"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = arrays(args)?;
        let Some(hosts) = arrays.first() else { return exec_err!("host_group takes one") };
        let hosts = cast(hosts, &DataType::Utf8)?;
        let groups = hosts.as_string::<i32>().iter().map(|host| host.map(host_group));
        Ok(ColumnarValue::Array(Arc::new(groups.collect::<StringArray>())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_merges_to_the_same_sum() {
        let a: ArrayRef = Arc::new(list_of(&[(4, 1), (1024, 2)]));
        let b: ArrayRef = Arc::new(list_of(&[(1024, 3)]));
        let mut whole = LatencySum::default();
        whole.update_batch(std::slice::from_ref(&a)).unwrap();
        whole.update_batch(std::slice::from_ref(&b)).unwrap();
        let mut parts = LatencySum::default();
        for part in [&b, &a] {
            let mut other = LatencySum::default();
            other.update_batch(std::slice::from_ref(part)).unwrap();
            let state = other.state().unwrap();
            parts.merge_batch(&[state[0].to_array().unwrap()]).unwrap();
        }
        assert_eq!(whole.bins, parts.bins);
        assert_eq!(whole.bins, [(4, 1), (1024, 5)]);
    }

    #[test]
    fn hosts_of_a_group_have_one_name() {
        for (host, group) in
            [("web-0012", "web"), ("db7.example.org", "db"), ("1234", "1234"), ("a", "a")]
        {
            assert_eq!(host_group(host), group);
        }
    }

    #[test]
    fn other_columns_are_refused() {
        assert!(bins_of(&Int64Array::from(vec![1])).is_err());
        assert!(bins_of(&StringArray::from(vec!["x"])).is_err());
    }
}
